//! Joining and leaving a job: two handshakes as state machines.
//!
//! Both ask, and ask again, until the answer is final. Calling contract: after construction and after each call with
//! a time, send everything that `poll_transmit` gives, then wait for a datagram or for `poll_timeout`.

use core::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Header, Kind};

use crate::identity::{CONTROL_LEN, Identity, Membership};
use crate::refusal::Refusal;

/// The first interval between two requests.
pub const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// The longest.
pub const LAST_INTERVAL: Duration = Duration::from_millis(100);

/// When to ask again.
#[derive(Debug)]
struct Asking {
    next: Duration,
    interval: Duration,
    end: Duration,
}

impl Asking {
    fn new(now: Duration, patience: Duration) -> Self {
        Self { next: now, interval: FIRST_INTERVAL, end: now.saturating_add(patience) }
    }

    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now + self.interval;
            self.interval = (self.interval * 3 / 2).min(LAST_INTERVAL);
        }
        due
    }

    fn poll_timeout(&self) -> Duration {
        self.next.min(self.end)
    }
}

/// The Ack for this worker in a datagram, with its header. One for another rank is none, even with this worker's session in
/// it: the request may have been damaged on its way, and the answer is then about what it seemed to say.
fn ack_in(datagram: &[u8], identity: &Identity) -> Option<(Header, Control)> {
    let (header, body) = Header::parse(datagram).ok()?;
    if header.kind != Kind::Control || (header.job, header.rank) != (identity.job, identity.rank) {
        return None;
    }
    let control = Control::parse(body).ok()?;
    (control.action == Action::Ack).then_some((header, control))
}

/// Why a worker could not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JoinFailure {
    /// The appliance said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The appliance granted a spread of 0, with which nothing could ever be sent.
    #[error("the appliance granted no window")]
    NoWindow,
    /// No answer at all before the deadline.
    #[error("no answer from the appliance in {waited:.1?}")]
    NoAnswer {
        /// How long this worker waited.
        waited: Duration,
    },
    /// The job was not complete before the deadline.
    #[error("only {joined} of {ranks} ranks had joined after {waited:.1?}")]
    Incomplete {
        /// Ranks that had joined by the last answer.
        joined: u16,
        /// The job's ranks.
        ranks: u16,
        /// How long this worker waited.
        waited: Duration,
    },
}

/// The join handshake.
#[derive(Debug)]
pub struct Join {
    identity: Identity,
    session: u64,
    request: [u8; CONTROL_LEN],
    asking: Asking,
    started: Duration,
    joined: Option<u16>,
}

impl Join {
    /// Begins to join. `session` must be larger than in any earlier session of the same rank; nanoseconds since 1970
    /// will do. `spread` is what this worker would like to be granted.
    #[must_use]
    pub fn new(identity: Identity, session: u64, spread: u16, now: Duration, deadline: Duration) -> Self {
        let body =
            Control { payload: identity.payload, window: spread, ..Control::request(Action::Join, session) };
        Self {
            identity,
            session,
            request: identity.control(&body, 0),
            asking: Asking::new(now, deadline),
            started: now,
            joined: None,
        }
    }

    /// A request to send, if one is due.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<&[u8]> {
        self.asking.is_due(now).then_some(&self.request)
    }

    /// Handles a received datagram: `Some` ends the handshake. Whatever is no answer to this request is ignored.
    pub fn handle_datagram(&mut self, datagram: &[u8]) -> Option<Result<Membership, JoinFailure>> {
        let (header, ack) = ack_in(datagram, &self.identity)?;
        if ack.answers != Some(Action::Join) || ack.session != self.session {
            return None;
        }
        if let Some(refusal) = Refusal::of(&ack, &self.identity) {
            return Some(Err(refusal.into()));
        }
        let Identity { job, payload, .. } = self.identity;
        if ack.payload != payload {
            let (expected, got) = (u32::from(ack.payload), u32::from(payload));
            return Some(Err(Refusal::Payload { job, expected, got }.into()));
        }
        if ack.window == 0 {
            return Some(Err(JoinFailure::NoWindow));
        }
        self.joined = Some(header.count);
        (ack.status == Status::Ok).then_some(Ok(Membership {
            identity: self.identity,
            session: self.session,
            epoch: header.epoch,
            spread: ack.window,
        }))
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) and [`handle_timeout`](Self::handle_timeout) next.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        self.asking.poll_timeout()
    }

    /// The failure, if the deadline has passed.
    #[must_use]
    pub fn handle_timeout(&self, now: Duration) -> Option<JoinFailure> {
        let waited = now.saturating_sub(self.started);
        (now >= self.asking.end).then_some(match self.joined {
            None => JoinFailure::NoAnswer { waited },
            Some(joined) => JoinFailure::Incomplete { joined, ranks: self.identity.ranks, waited },
        })
    }

    /// Ranks that had joined by the appliance's last answer.
    #[must_use]
    pub const fn joined(&self) -> Option<u16> {
        self.joined
    }
}

/// What came of an attempt to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All ranks have left: nobody can need this worker's results any more.
    Everyone,
    /// The linger limit came first: other ranks are still at work, or the appliance no longer answers.
    Lingered,
}

/// The leave handshake. While it lasts, the session goes on answering reminders.
#[derive(Debug)]
pub struct Leave {
    membership: Membership,
    request: [u8; CONTROL_LEN],
    asking: Asking,
}

impl Leave {
    /// Begins to leave, and to wait for the others for up to `linger`.
    #[must_use]
    pub fn new(membership: Membership, now: Duration, linger: Duration) -> Self {
        let body = Control::request(Action::Leave, membership.session);
        let request = membership.identity.control(&body, membership.epoch);
        Self { membership, request, asking: Asking::new(now, linger) }
    }

    /// A request to send, if one is due.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<&[u8]> {
        self.asking.is_due(now).then_some(&self.request)
    }

    /// True if the datagram answers this request; it is not the session's then.
    #[must_use]
    pub fn is_answer(&self, datagram: &[u8]) -> bool {
        ack_in(datagram, &self.membership.identity).is_some_and(|(_, ack)| self.answered_by(&ack))
    }

    /// Handles a received datagram: `Some` ends the handshake.
    ///
    /// A refusal ends it as well: an appliance that does not know this rank in this generation has let it go.
    #[must_use]
    pub fn handle_datagram(&self, datagram: &[u8]) -> Option<Left> {
        let (_, ack) = ack_in(datagram, &self.membership.identity)?;
        (self.answered_by(&ack) && ack.status != Status::Pending).then_some(Left::Everyone)
    }

    fn answered_by(&self, ack: &Control) -> bool {
        ack.answers == Some(Action::Leave) && ack.session == self.membership.session
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) and [`handle_timeout`](Self::handle_timeout) next.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        self.asking.poll_timeout()
    }

    /// The end, if the linger limit has passed.
    #[must_use]
    pub fn handle_timeout(&self, now: Duration) -> Option<Left> {
        (now >= self.asking.end).then_some(Left::Lingered)
    }
}
