//! An asynchronous member's protocol: updates out, weights and the queue's state in.

use core::num::NonZeroU16;
use core::time::Duration;

use pascaline_wire::control::Status;
use pascaline_wire::{Element, Flags, Header, Kind, NoRoom, Trailer, header, trailer};
use zerocopy::IntoBytes as _;

use super::control::{Control, Policy};
use super::counters::AsyncCounters;
use super::outstanding::Outstanding;
use crate::identity::Membership;
use crate::membership::Left;
use crate::rejection::Rejection;
use crate::session::{Event, Session};
use genuine::Numbers;

mod futile;
mod genuine;
mod receive;

use futile::Futile;

/// The most updates in flight.
pub const MOST_OUTSTANDING: u16 = 64;

/// How often initial weights are offered until the server has answered.
const OFFER: Duration = Duration::from_millis(100);

/// How an asynchronous worker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The model's 32-bit floats.
    pub floats: usize,
    /// Updates that may be in flight: 1 unless there is a reason for more; at most [`MOST_OUTSTANDING`].
    pub outstanding: NonZeroU16,
    /// When updates are sent.
    pub policy: Policy,
    /// The seed of transmission control's random numbers.
    pub seed: u64,
    /// An error ends the run if no update is applied for this long.
    pub patience: Duration,
}

/// The initial weights of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial<'a> {
    /// These weights. The server takes the first ones that it gets from any worker of the cluster, and
    /// answers with what it has (Olaf, section 2.1); until then updates are not sent.
    Weights(&'a [f32]),
    /// Nothing: another worker offers weights. If none does, this worker offers zeros.
    Nothing,
}

/// The outcome of [`AsyncSession::push`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Push {
    /// It is on its way, under this number.
    Sent(u32),
    /// Transmission control held it back: the queue is congested. The trainer may go on, and push a later
    /// update.
    Skipped,
    /// The allowed number is in flight, or the worker is not (yet, again) a member with weights.
    Busy,
}

/// Why an update could not be pushed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PushError {
    /// The gradient is not as long as the model.
    #[error("a gradient of {got} floats for a model of {expected}")]
    Length {
        /// The model's floats.
        expected: usize,
        /// The gradient's.
        got: usize,
    },
    /// The reward is NaN or infinite, so it cannot be compared.
    #[error("a reward of {0}: it must be a finite number")]
    Reward(f32),
    /// The appliance rejects this worker for good.
    #[error("the appliance rejects this worker: {0}")]
    Rejected(#[from] Rejection),
    /// Nothing that was sent has had an effect.
    #[error("no update that this worker has sent for {:.1} s was applied: {why}", after.as_secs_f64())]
    Futile {
        /// For so long.
        after: Duration,
        /// As far as is known.
        why: Why,
    },
}

/// Why no update is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// The appliance is silent as well.
    #[error("the appliance does not answer: is it running, and reachable from here?")]
    ApplianceSilent,
    /// The appliance answers, but never about updates.
    #[error("the appliance answers, but the job's parameter server does not: is `pascaline ps` running?")]
    ServerSilent,
    /// The appliance has no server for the job.
    #[error("the appliance reports that the job has no parameter server: start `pascaline ps`")]
    NoServer,
    /// The last update was refused with this status.
    #[error("the last update was refused: {0}")]
    Refused(Status),
}

/// An asynchronous member's state.
///
/// Calling contract. Times are monotonic, from any origin; the times that travel are Unix nanoseconds, given
/// apart. After [`push`](Self::push), [`handle_datagram`](Self::handle_datagram) and
/// [`handle_timeout`](Self::handle_timeout), call [`poll_transmit`](Self::poll_transmit) until it returns
/// `None` and send what it writes; then there is nothing to do until a datagram comes or
/// [`poll_timeout`](Self::poll_timeout) has passed. No call waits: a trainer that pushes continues at once,
/// whatever the fate of its update.
///
/// No call allocates, and each does work in proportion to the model's length at most.
#[derive(Debug)]
pub struct AsyncSession {
    /// Membership, heartbeats, resuming in a new generation, leaving.
    member: Session,
    settings: Settings,
    control: Control,
    outstanding: Outstanding,
    next_psn: u32,
    numbers: Numbers,
    /// An update to be sent, if it is not empty.
    update: Vec<u8>,
    /// When to offer the weights next, until the server has answered.
    offer: Option<Duration>,
    weights: Vec<f32>,
    /// The weights are this worker's initial ones.
    own: bool,
    /// Weights received so far.
    version: u64,
    rejection: Option<Rejection>,
    futile: Futile,
    counters: AsyncCounters,
}

impl AsyncSession {
    /// The session of a member. Initial weights of another length than the model are cut off or filled up
    /// with zeros.
    #[must_use]
    pub fn new(membership: Membership, settings: Settings, initial: Initial<'_>) -> Self {
        let longest = header::LEN + settings.floats * size_of::<f32>() + trailer::MAX_LEN;
        let mut weights = vec![0.0; settings.floats];
        let own = matches!(initial, Initial::Weights(_));
        if let Initial::Weights(values) = initial {
            weights.iter_mut().zip(values).for_each(|(weight, value)| *weight = *value);
        }
        Self {
            member: Session::new(membership, 1).without_sums(),
            settings,
            control: Control::new(settings.policy, settings.seed),
            outstanding: Outstanding::new(),
            next_psn: membership.base,
            numbers: Numbers::new(membership.base, membership.identity.ranks),
            update: Vec::with_capacity(longest),
            own,
            offer: own.then_some(Duration::ZERO),
            weights,
            version: 0,
            rejection: None,
            futile: Futile::default(),
            counters: AsyncCounters::default(),
        }
    }

    /// Offers an update: a gradient and the reward of the experience that it comes from, generated at
    /// `generated_ns` (nanoseconds since 1970).
    ///
    /// # Errors See [`PushError`]; then nothing was sent or counted.
    pub fn push(
        &mut self,
        now: Duration,
        generated_ns: u64,
        gradient: &[f32],
        reward: f32,
    ) -> Result<Push, PushError> {
        if gradient.len() != self.settings.floats {
            return Err(PushError::Length { expected: self.settings.floats, got: gradient.len() });
        }
        if !reward.is_finite() {
            return Err(PushError::Reward(reward));
        }
        if let Some(rejection) = &self.rejection {
            return Err(rejection.clone().into());
        }
        self.handle_timeout(now);
        if let Some((after, why)) = self.futile.verdict(now, self.settings.patience) {
            return Err(PushError::Futile { after, why });
        }
        if self.member.is_in_doubt() {
            self.futile.try_once(now);
        }
        self.counters.pushed += 1;
        let full = !self.update.is_empty()
            || self.outstanding.open() >= u32::from(self.settings.outstanding.get().min(MOST_OUTSTANDING));
        if full || self.offer.is_some() || self.member.is_in_doubt() || self.member.is_over() {
            self.counters.busy += 1;
            self.futile.wait();
            return Ok(Push::Busy);
        }
        if !self.control.permits(now) {
            self.counters.skipped += 1;
            return Ok(Push::Skipped);
        }
        let psn = self.next_psn;
        self.next_psn = psn.wrapping_add(1);
        self.write(psn, gradient, trailer::Update { reward, generated_ns });
        self.counters.sent += 1;
        self.futile.try_once(now);
        self.counters.given_up += u64::from(self.outstanding.on_sent(now, psn, generated_ns));
        Ok(Push::Sent(psn))
    }

    const fn header(&self, kind: Kind, flags: Flags, psn: u32) -> Header {
        let Membership { identity, epoch, .. } = self.membership();
        Header { flags, count: 1, ..identity.header(kind, Element::F32_SUM, psn, *epoch) }
    }

    fn write(&mut self, psn: u32, gradient: &[f32], update: trailer::Update) {
        let trailer = Trailer { update: Some(update), ..Trailer::default() };
        let head = self.header(Kind::Update, Flags::TRAILER, psn);
        let mut end = [0; trailer::MAX_LEN];
        let length = trailer.emit(&mut end).unwrap_or(0);
        self.update.clear();
        self.update.extend_from_slice(&head.to_bytes());
        self.update.extend_from_slice(gradient.as_bytes());
        self.update.extend_from_slice(&end[..length]);
    }

    /// Writes the next datagram to send to the start of `out`, if there is one, and returns its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is too short for it: [`longest`](Self::longest) never is.
    pub fn poll_transmit(&mut self, now: Duration, out: &mut [u8]) -> Result<Option<usize>, NoRoom> {
        if let Some(request) = self.member.poll_transmit(now) {
            let body = self.member.payload(&request, &[]);
            return put(out, &[&request.header, body]).map(Some);
        }
        if self.member.is_in_doubt() {
            return Ok(None);
        }
        if self.offer.is_some_and(|due| due <= now) {
            self.offer = Some(now.saturating_add(OFFER));
            // Past the queue: weights must not be combined with anything.
            let head = self.header(Kind::Gradient, Flags::BYPASS, self.initial_psn());
            self.counters.initial_sent += 1;
            self.futile.try_once(now);
            return put(out, &[&head.to_bytes(), self.weights.as_bytes()]).map(Some);
        }
        if self.update.is_empty() {
            return Ok(None);
        }
        let sent = put(out, &[&self.update]);
        self.update.clear();
        sent.map(Some)
    }

    /// The longest datagram that is sent or expected.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.update.capacity().max(header::LEN + pascaline_wire::control::LEN + trailer::MAX_LEN)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and `poll_transmit` after it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        // While the membership is in doubt nothing is offered, so a due offer is no reason to wake.
        let offer = self.offer.filter(|_| !self.member.is_in_doubt());
        [self.member.poll_timeout(), offer, self.outstanding.poll_timeout()].into_iter().flatten().min()
    }

    /// Handles the passing of time; harmless when nothing is due. Returns the outcome once the wait that
    /// [`leave`](Self::leave) has begun is over.
    pub fn handle_timeout(&mut self, now: Duration) -> Option<Left> {
        self.counters.given_up += u64::from(self.outstanding.on_timeout(now));
        match self.member.handle_timeout(now) {
            Some(Event::Left(left)) => Some(left),
            _ => None,
        }
    }

    /// The newest weights that the server has sent, or the initial ones, and how often weights have come.
    #[must_use]
    pub fn weights(&self) -> (&[f32], u64) {
        (&self.weights, self.version)
    }

    /// Has the next request sent soon.
    pub fn ask_soon(&mut self, now: Duration) {
        self.member.ask_soon(now);
    }

    /// Whether the worker has begun to leave, or has left.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.member.is_over()
    }

    /// Begins to leave, for `linger` at the most: others may still be at work, but do not need this worker.
    pub fn leave(&mut self, now: Duration, linger: Duration) {
        self.update.clear();
        self.offer = None;
        self.counters.given_up += u64::from(self.outstanding.forget());
        self.member.leave(now, linger);
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> &AsyncCounters {
        &self.counters
    }

    /// For drivers, which count what only they see.
    pub const fn counters_mut(&mut self) -> &mut AsyncCounters {
        &mut self.counters
    }

    /// Updates in flight.
    #[must_use]
    pub const fn outstanding(&self) -> u32 {
        self.outstanding.open()
    }

    /// How long it takes from sending an update to its acknowledgement, smoothed, once one has come.
    #[must_use]
    pub const fn round_trip(&self) -> Option<Duration> {
        self.outstanding.rtt().smoothed()
    }

    /// The probability with which transmission control would send an update now.
    #[must_use]
    pub fn probability(&self, now: Duration) -> f64 {
        self.control.probability(now)
    }

    /// The terms that the appliance agreed to. The epoch changes when the job continues in a new generation.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        self.member.membership()
    }
}

fn put(out: &mut [u8], parts: &[&[u8]]) -> Result<usize, NoRoom> {
    let mut at = 0;
    for part in parts {
        out.get_mut(at..at + part.len()).ok_or(NoRoom)?.copy_from_slice(part);
        at += part.len();
    }
    Ok(at)
}
