//! Joining a job: a handshake as a state machine. A member's later requests (to resume in a new generation,
//! to leave) are part of its [session](crate::session).
//!
//! Calling contract: after construction and after each call with a time, send everything that `poll_transmit`
//! gives, then wait for a datagram or for `poll_timeout`.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use pascaline_wire::asking::{Asking, Requests};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Header, Kind, Trailer, header};

use crate::identity::{CONTROL_LEN, Identity, Membership};
use crate::inquiry::{Inquiry, Missing, STALLED, query};
use crate::path::{Path, Shortened};
use crate::places::Places;
use crate::rejection::{Reason, Rejection};
use crate::way::{Check, Unreachable, Way};

/// How often a worker that has not joined, or has failed, says that it gives up: no answer comes.
pub const FAREWELLS: usize = 2;

/// The Ack for this worker in a datagram, with its header. One for another rank is none, even with this
/// worker's session in it: the request may have been damaged on its way, and the answer is then about the
/// damaged one.
fn ack_in(datagram: &[u8], identity: &Identity) -> Option<(Header, Control, Option<Trailer>)> {
    let (header, body) = Header::parse(datagram).ok()?;
    if header.kind != Kind::Control || (header.job, header.rank) != (identity.job, identity.rank) {
        return None;
    }
    let (control, trailer) = Control::parse_with_trailer(&header, body).ok()?;
    (control.action == Action::Ack).then_some((header, control, trailer))
}

/// A Join whose payload is fixed, or an offer.
pub(crate) const fn offering(join: Control, flexible: bool) -> Control {
    Control { payload: if flexible { join.payload | control::AT_MOST } else { join.payload }, ..join }
}

/// Whether a rank that has offered `payload` accepts the payload that the ranks have agreed on.
pub(crate) const fn agrees(ack: &Control, payload: u16, flexible: bool) -> bool {
    let shorter = ack.payload > 0 && ack.payload < payload && ack.payload.is_multiple_of(8);
    ack.payload == payload || flexible && shorter
}

/// Why a worker could not join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinFailure {
    /// The appliance said no.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The appliance granted a spread of 0, with which nothing could ever be sent.
    #[error("the appliance granted no window")]
    NoWindow,
    /// No answer at all before the deadline, or hosts on the way refuse the packets.
    #[error("no answer in {waited:.1?}: {}", Check::new(*.appliance, *.report))]
    NoAnswer {
        /// How long this worker waited.
        waited: Duration,
        /// The appliance, where the driver has named it.
        appliance: Option<SocketAddr>,
        /// What hosts on the way have reported.
        report: Option<Unreachable>,
    },
    /// The job was not complete before the deadline.
    #[error("only {joined} of {ranks} ranks had joined after {waited:.1?}{}", Names(.missing.as_deref()))]
    Incomplete {
        /// Ranks that had joined by the last answer.
        joined: u16,
        /// The job's ranks.
        ranks: u16,
        /// How long this worker waited.
        waited: Duration,
        /// The appliance's reports on the others.
        missing: Option<Box<Missing>>,
    },
}

/// The ranks that a job lacks, at the end of a sentence.
struct Names<'a>(Option<&'a Missing>);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |missing| write!(f, ": {missing}"))
    }
}

/// The join handshake: a first Join asks for the job's generation, the following ones name it.
#[derive(Debug)]
pub struct Join {
    identity: Identity,
    session: u64,
    spread: u16,
    /// The generation that an Ack has named.
    told: Option<u16>,
    /// From the latest Ack: it proves this worker's source address.
    cookie: u64,
    requests: Requests,
    request: Vec<u8>,
    asking: Asking,
    started: Duration,
    /// When it gives up.
    end: Duration,
    joined: Option<u16>,
    inquiry: Inquiry,
    places: Places,
    /// If shorter packets than the identity's are acceptable: whether those get through.
    path: Option<Path>,
    /// For error texts only.
    appliance: Option<SocketAddr>,
    way: Way,
}

impl Join {
    /// Begins to join. `session` is a random number that no other host knows. `spread` is the one that this
    /// worker asks for.
    #[must_use]
    pub fn new(identity: Identity, session: u64, spread: u16, now: Duration, deadline: Duration) -> Self {
        Self {
            identity,
            session,
            spread,
            inquiry: Inquiry::new(now, deadline),
            told: None,
            cookie: 0,
            requests: Requests::default(),
            request: Vec::new(),
            asking: Asking::new(now),
            started: now,
            end: now.saturating_add(deadline),
            joined: None,
            places: Places::default(),
            path: None,
            appliance: None,
            way: Way::default(),
        }
    }

    /// Accepts the payload that the ranks agree on, up to the identity's, and first finds out whether packets
    /// that long get through to the appliance and back: if not, it tries shorter ones.
    #[must_use]
    pub const fn flexible(mut self) -> Self {
        self.path = Some(Path::of(self.identity.payload));
        self
    }

    /// For drivers: packets are longer by this many bytes than what it gives them. After
    /// [`flexible`](Self::flexible).
    #[must_use]
    pub fn longer(mut self, by: u16) -> Self {
        self.path = self.path.map(|path| path.longer(by));
        self
    }

    /// For drivers: the failure of packets that the appliance does not take as proven. Both numbers are 0
    /// for unsealed ones, 1 for `mac` and 2 for `encrypt`: what the job demands, and what this worker sends.
    #[must_use]
    pub const fn unproven(&self, demanded: u32, own: u32) -> JoinFailure {
        JoinFailure::Rejected(self.identity.rejection(Reason::Unproven, demanded, own))
    }

    /// The notice to the user about packets that did not get through, once.
    pub fn shortened(&mut self) -> Option<Shortened> {
        self.path.as_mut()?.take_warning()
    }

    /// Names the appliance in the texts of failures.
    #[must_use]
    pub const fn at(mut self, appliance: SocketAddr) -> Self {
        self.appliance = Some(appliance);
        self
    }

    /// For drivers: names the appliance that it has turned to, for error texts only.
    pub const fn turned_to(&mut self, appliance: SocketAddr) {
        self.appliance = Some(appliance);
    }

    /// Turns to one of several appliances.
    #[must_use]
    pub const fn among(mut self, places: Places) -> Self {
        self.places = places;
        self
    }

    /// The destination of all packets: look at it after [`poll_transmit`](Self::poll_transmit), before
    /// sending.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// For drivers: a host on the way or this one's kernel reports that packets do not reach the appliance.
    /// If packets are refused for long, the worker turns to the next appliance; without one joining fails.
    pub fn note_unreachable(&mut self, now: Duration, report: Unreachable) {
        self.way.reported(now, report);
    }

    /// A request to send, if one is due.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<&[u8]> {
        if self.places.turn(now, false, self.way.closes()) {
            (self.told, self.cookie, self.way) = (None, 0, Way::default());
            self.path = self.path.map(|path| path.anew(self.identity.payload));
            self.requests.outdate();
            self.asking.begin_again();
        }
        let mut padding = 0;
        let (head, body) = if self.asking.is_due(now) {
            self.places.asked(now);
            let told = self.next_name(&mut padding);
            if told.is_some() {
                self.places.note_join();
            }
            let (head, body) = self.identity.join(self.requests.next(), self.session, self.spread, told);
            (head, offering(body, self.path.is_some()))
        } else if let Some(joined) = self.joined
            && self.inquiry.is_due(now, joined.into(), self.identity.rank)
        {
            query(&self.identity, self.told?, self.requests.next(), self.session, 0)
        } else {
            return None;
        };
        let body = Control { cookie: self.cookie, ..body };
        self.request.clear();
        self.request.extend(head.to_bytes());
        self.request.extend(body.to_bytes());
        self.request.resize(CONTROL_LEN + padding, 0);
        Some(&self.request)
    }

    /// Which generation the next Join names, and how many zeros make it longer. As long as it is not known
    /// whether long packets get through it only asks, so that it does not count.
    fn next_name(&mut self, padding: &mut usize) -> Option<u16> {
        let Some(path) = self.path.as_mut().filter(|path| !path.is_open()) else { return self.told };
        if path.shorten() {
            self.asking.begin_again();
        }
        self.identity.payload = path.payload();
        *padding = path.padding();
        if path.is_open() { self.told } else { None }
    }

    /// Says that this worker has given up, if the appliance may count it as joined: to be sent
    /// [twice](FAREWELLS) after a failure, so that it is not in the way of the next run's workers.
    pub fn farewell(&mut self) -> Option<[u8; CONTROL_LEN]> {
        let epoch = self.joined.and(self.told)?;
        let (header, leave) = self.identity.leave(epoch, self.requests.next(), self.session);
        let mut packet = [0; CONTROL_LEN];
        packet[..header::LEN].copy_from_slice(&header.to_bytes());
        packet[header::LEN..].copy_from_slice(&leave.to_bytes());
        Some(packet)
    }

    /// The notice to the user about a job that lacks ranks or does not answer, once.
    pub fn stalled(&mut self, now: Duration) -> Option<JoinFailure> {
        let waited = now.saturating_sub(self.started);
        let silent = self.joined.is_none() && waited >= STALLED;
        self.inquiry.take_stall_notice(silent).then(|| self.failure(now))
    }

    fn failure(&self, now: Duration) -> JoinFailure {
        let Some(joined) = self.joined else { return self.no_answer(now) };
        let (waited, missing) = (now.saturating_sub(self.started), self.inquiry.latest());
        JoinFailure::Incomplete { joined, ranks: self.identity.ranks, waited, missing }
    }

    fn no_answer(&self, now: Duration) -> JoinFailure {
        // An appliance that has answered before refuses since then.
        let refused = self.joined.and_then(|_| self.way.since());
        let waited = now.saturating_sub(refused.unwrap_or(self.started));
        JoinFailure::NoAnswer { waited, appliance: self.appliance, report: self.way.report() }
    }

    /// Handles a received datagram: `Some` ends the handshake. A datagram that does not answer this request
    /// is ignored. To be followed by a call of [`poll_transmit`](Self::poll_transmit).
    pub fn handle_datagram(&mut self, datagram: &[u8]) -> Option<Result<Membership, JoinFailure>> {
        let (header, ack, trailer) = ack_in(datagram, &self.identity)?;
        self.places.note_answer();
        if ack.answers == Some(Action::Query) && ack.session == self.session {
            self.inquiry.answered(&ack, trailer.as_ref());
            return None;
        }
        let mine = ack.answers == Some(Action::Join) && ack.session == self.session;
        if !mine || !self.requests.awaits(ack.number) {
            return None;
        }
        self.way.answered();
        if let Some(path) = &mut self.path {
            if ack.status == Status::Pending {
                path.limit(ack.payload);
            }
            if path.answered(datagram.len()) {
                self.asking.begin_again();
            }
        }
        match ack.status {
            Status::Ok | Status::Pending => {}
            Status::WrongEpoch => {
                self.adopt(header.epoch, ack.cookie);
                return None;
            }
            Status::TooMany => return None,
            _ => return Rejection::of(&ack, trailer.as_ref(), &self.identity).map(|no| Err(no.into())),
        }
        self.joined = Some(ack.joined);
        if ack.status == Status::Pending {
            // The rest of it may be about another generation than the one in which this Join will count.
            self.adopt(header.epoch, ack.cookie);
            return None;
        }
        let flexible = self.path.is_some();
        if !agrees(&ack, self.identity.payload, flexible) {
            let (expected, got) = (u32::from(ack.payload), u32::from(self.identity.payload));
            return Some(Err(self.identity.rejection(Reason::Payload, expected, got).into()));
        }
        if ack.window == 0 {
            return Some(Err(JoinFailure::NoWindow));
        }
        Some(Ok(Membership {
            identity: Identity { payload: ack.payload, ..self.identity },
            flexible,
            session: self.session,
            requests: self.requests.latest(),
            epoch: header.epoch,
            spread: ack.window,
            base: ack.psn,
            cookie: ack.cookie,
            congestion: ack.congestion,
            group: ack.group,
            workers: ack.workers,
        }))
    }

    /// Notes the job's generation and the cookie; a Join that named another, or none, has not counted.
    fn adopt(&mut self, epoch: u16, cookie: u64) {
        let news = (Some(epoch), cookie);
        if (self.told, self.cookie) != news {
            (self.told, self.cookie) = news;
            // Requests that named another generation may be answered as if they named this one.
            self.requests.outdate();
            self.asking.begin_again();
        }
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) and [`handle_timeout`](Self::handle_timeout) next.
    #[must_use]
    pub fn poll_timeout(&self) -> Duration {
        let inquiry = self.joined.map(|_| self.inquiry.poll_timeout());
        let due = [self.way.closes(), inquiry, self.places.poll_timeout(false, self.way.closes())]
            .into_iter()
            .flatten();
        due.fold(self.asking.due().min(self.end), Duration::min)
    }

    /// The failure, if the deadline has passed.
    #[must_use]
    pub fn handle_timeout(&self, now: Duration) -> Option<JoinFailure> {
        // Other appliances may be reachable.
        if self.way.is_closed(now) && !self.places.has_others() {
            return Some(self.no_answer(now));
        }
        (now >= self.end).then(|| self.failure(now))
    }

    /// Ranks that had joined by the appliance's last answer.
    #[must_use]
    pub const fn joined(&self) -> Option<u16> {
        self.joined
    }
}

/// The outcome of an attempt to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All ranks have left: this worker's results are no longer needed.
    Everyone,
    /// The linger limit came first: other ranks are still there and wait for nothing, or the appliance no
    /// longer answers.
    Lingered,
}
