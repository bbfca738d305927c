//! A member's protocol: one allreduce after the other, and answers to the others' reminders at any time.

use core::net::SocketAddr;
use core::time::Duration;

use pascaline_wire::CongestionControl;
use pascaline_wire::asking::Requests;

use crate::allreduce::{Failure, Report};
use crate::counters::Counters;
use crate::identity::Membership;
use crate::membership::Left;
use crate::partials::Partials;
use crate::places::Places;
use crate::priority::Meter;
use crate::way::Way;

mod anew;
mod commanding;
mod failing;
mod generation;
mod hearing;
mod leaving;
mod psns;
mod receive;
mod refusals;
mod start;
mod state;
mod timers;
mod transmit;
mod turning;

pub use commanding::{Command, CommandFailure};
pub use generation::HEARTBEAT;
use hearing::Hearing;
pub use hearing::Unheard;
use leaving::Leaving;
pub use leaving::SILENCE;
use psns::Psns;
pub use start::StartError;
use state::{Member, State};
pub use transmit::Transmit;

pub use crate::window::REMIND_AFTER;

/// Datagrams gather for this part of a round trip at most: for that part of the packets in flight; ...
const GATHER_SHARE: u32 = 16;
/// ... never for longer than this, since a late result delays the caller that waits for the end; ...
const GATHER_MOST: Duration = Duration::from_micros(500);
/// ... and not at all for less: a sleep takes about 100 µs longer than asked for, which would lengthen the
/// round trip where the window limits the rate.
const GATHER_LEAST: Duration = Duration::from_micros(200);

/// The end of something that a caller has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The tensor holds the result, and [`Session::report`] has its measurements.
    Completed,
    /// The allreduce failed.
    Failed(Failure),
    /// The worker has left.
    Left(Left),
    /// A [command](Session::command) was carried out, or not.
    Commanded(Result<(), CommandFailure>),
}

/// A member's state.
///
/// Calling contract. Times are monotonic, from any origin. After [`start`](Self::start),
/// [`command`](Self::command), [`leave`](Self::leave), [`handle_datagram`](Self::handle_datagram) and
/// [`handle_timeout`](Self::handle_timeout), call [`poll_transmit`](Self::poll_transmit) until it returns
/// `None` and send what it returns; then wait for a datagram or until [`poll_timeout`](Self::poll_timeout),
/// which changes with every other call. From `start` to the [`Event`], pass the same tensor to every call;
/// outside of operations pass an empty one. A packet must be sent, or its payload copied, before the next
/// `handle_datagram`, which may write to the tensor: a contribution sent later could carry a result's bytes.
///
/// Other ranks may ask for this one's packets: its contribution to a PSN lies in the tensor until the result
/// overwrites it; results lie there, or in the session's cache, for as long as another rank can lack them.
///
/// No call allocates (the memory is taken in [`new`](Self::new)), and each does a bounded amount of work. Two
/// exceptions: an error that names ranks, and the first Ack of a generation that starts from nothing.
#[derive(Debug)]
pub struct Session {
    membership: Membership,
    in_flight: u16,
    control: CongestionControl,
    psns: Psns,
    state: State,
    meter: Meter,
    requests: Requests,
    /// The deadline of the latest allreduce: others may take as long.
    patience: Duration,
    /// The generation before this one, and until when rejections of its packets may still arrive.
    previous: Option<(u16, Duration)>,
    places: Places,
    hearing: Hearing,
    /// For error texts only.
    appliance: Option<SocketAddr>,
    way: Way,
    /// Whether results are sums over all ranks; otherwise their number of ranks is not checked, and there are
    /// no operations: the session is tended all the time.
    sums: bool,
    /// The caller waits, if only for what goes over another tree.
    attended: bool,
    /// Bytes by which packets are longer than header and payload; for error texts only.
    longer: u16,
    report: Report,
    counters: Counters,
}

impl Session {
    /// The session of a member that keeps up to `in_flight` packets in flight, or with 0 up to the spread: as
    /// many as the job's [congestion control](crate::congestion) allows. Where the appliance has named none,
    /// that is `fixed` with an `in_flight`, otherwise `delay`.
    #[must_use]
    pub fn new(membership: Membership, in_flight: u16) -> Self {
        let otherwise = if in_flight > 0 { CongestionControl::Fixed } else { CongestionControl::Delay };
        let control = membership.congestion.unwrap_or(otherwise);
        Self {
            control,
            membership,
            in_flight,
            psns: Psns::new(membership.base, in_flight, control, &membership),
            state: State::Member(Member::default()),
            meter: Meter::default(),
            requests: Requests::after(membership.requests),
            patience: Duration::ZERO,
            previous: None,
            places: Places::default(),
            hearing: Hearing::default(),
            appliance: None,
            way: Way::default(),
            sums: true,
            attended: false,
            longer: 0,
            report: Report::default(),
            counters: Counters::default(),
        }
    }

    /// Also accepts results that do not contain every rank, and [reports](Report::partial) the missing ranks.
    #[must_use]
    pub fn accept_partial(mut self) -> Self {
        self.psns.partials = Some(Partials::new(self.membership.identity.ranks, self.membership.spread));
        self
    }

    /// Of a member of a job whose updates are not summed.
    pub(crate) fn without_sums(self) -> Self {
        Self { sums: false, ..self }
    }

    /// Uses this congestion control, whichever the appliance has named.
    #[must_use]
    pub fn controlled(mut self, control: CongestionControl) -> Self {
        self.control = control;
        self.forget(self.psns.first);
        self
    }

    /// Names the appliance in the texts of failures.
    #[must_use]
    pub const fn at(mut self, appliance: SocketAddr) -> Self {
        self.appliance = Some(appliance);
        self
    }

    /// For drivers that send packets which are longer by this many bytes, for the texts of failures.
    #[must_use]
    pub const fn longer(mut self, by: u16) -> Self {
        self.longer = by;
        self
    }

    /// For drivers of several trees, of which an operation may need a few: whether one runs over any.
    /// Meanwhile the session looks for another appliance if this one is silent, also where it has no part in
    /// the operation, since another rank may still lack a result of an earlier one.
    pub fn attend(&mut self, now: Duration, attended: bool) {
        if attended {
            self.places.begin(now);
        }
        self.attended = attended;
    }

    /// Whether the caller waits.
    const fn waits(&self) -> bool {
        self.attended || self.state.waits()
    }

    /// Begins to leave: the session answers reminders until all ranks have left, or no rank has needed
    /// answers for `linger`; then comes [`Event::Left`]. While a rank waits inside an allreduce it stays, for
    /// as long as the latest allreduce might have taken, and `linger`. Without an answer from the appliance
    /// it leaves after [`SILENCE`], or `linger` if that is more. A running allreduce is abandoned.
    pub fn leave(&mut self, now: Duration, linger: Duration) {
        self.places.begin(now);
        self.state = match self.state.take_rejoin() {
            Some(rejoin) if rejoin.anew => State::Outside { since: now },
            rejoin => State::Leaving(Leaving::new(now, linger, self.patience, rejoin)),
        };
    }

    /// Whether the session has ended: no operation can begin any more, and the worker must join again, as
    /// another session.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        !matches!(self.state, State::Member(_))
    }

    /// How far the running operation has come: PSNs with a result, and all of them.
    #[must_use]
    pub fn progress(&self) -> Option<(u32, u32)> {
        let operation = self.state.operation()?;
        Some((self.psns.window.completed(), self.psns.window.end().wrapping_sub(operation.start)))
    }

    /// How long a driver may let datagrams gather, if at all. While many packets are in flight and more are
    /// to come, handling several at once saves much of the cost of each. A small part of the round trip, so
    /// that the packets in flight last longer.
    #[must_use]
    pub fn may_gather(&self) -> Option<Duration> {
        let unsent = self.psns.window.unsent();
        let enough = self.state.operation().is_some()
            && !self.is_in_doubt()
            && unsent > self.psns.window.in_flight()
            && self.psns.window.in_flight() >= self.psns.window.allowed() / 4 * 3;
        let gather =
            (self.psns.recovery.rtt().smoothed().filter(|_| enough)? / GATHER_SHARE).min(GATHER_MOST);
        (gather >= GATHER_LEAST).then_some(gather)
    }

    /// The measurements of the last completed allreduce.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For drivers, which count what only they see.
    pub const fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// How many bytes from the beginning of the running operation's tensor on have their results; 0 if none
    /// is running.
    #[must_use]
    pub fn settled(&self) -> usize {
        self.state.operation().map_or(0, |operation| operation.range(self.psns.window.una()).start)
    }

    /// Packets that may be in flight now.
    #[must_use]
    pub const fn allowed(&self) -> u32 {
        self.psns.window.allowed()
    }

    /// The congestion control that it uses.
    #[must_use]
    pub const fn control(&self) -> CongestionControl {
        self.control
    }

    /// Packets in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.psns.window.in_flight()
    }

    /// The terms that the appliance agreed to. The epoch changes when the job continues in a new generation.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        &self.membership
    }
}
