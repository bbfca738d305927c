//! What an appliance is to the one above it: one rank of its job.
//!
//! A state machine without I/O. It joins when all that the generation waits for have joined here, says that
//! they wait as they say it, and leaves after them. Each formation of the job here is a session of its own
//! there. The number of a generation and its first PSN are the parent's: so the claims of workers to go on
//! (protocol, section 9) hold at every level, and an appliance that starts anew has nothing to remember.

mod told;

use core::time::Duration;

use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::header::{Element, Header, Kind};
use pascaline_wire::trailer::Operations;

use super::claim::Claim;
use super::progress::Called;
pub use told::{Parent, UplinkState, UplinkStatus, Upward};

/// The first interval between two requests, and the longest: those of a worker.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
const LAST_INTERVAL: Duration = Duration::from_millis(100);
/// For so long after the last Leave of a worker the parent is asked whether all have left.
const LINGER: Duration = Duration::from_secs(5);
/// How far numbers of generations that are forming are from the parent's: enough for five levels.
const APART: u8 = 48;
/// A parent that has not answered for so long is silent.
const SILENT: Duration = Duration::from_secs(1);

/// The payload of a Join that only asks.
const QUESTION: u16 = 8;

/// Why a parent refuses, if it does.
fn refusal(ack: &Control) -> Option<(Status, u32)> {
    let none = matches!(ack.status, Status::Ok | Status::Pending | Status::WrongEpoch | Status::TooMany);
    (!none).then_some((ack.status, ack.expected))
}

/// What a subtree wants to be taken in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    /// What it wants to go on with, as a Join says it; 0 for nothing.
    pub(super) resume: u32,
    pub(super) payload: u16,
    pub(super) window: u16,
    /// The oldest PSN that a rank lacks.
    pub(super) una: u32,
    pub(super) workers: u16,
}

/// What the parent has granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) epoch: u8,
    pub(super) base: u32,
    pub(super) window: u16,
    pub(super) resumed: Option<u8>,
    pub(super) workers: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Joining(Wish),
    Member(Granted),
    Leaving { epoch: u8, until: Duration },
}

/// What an answer of the parent has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Nothing,
    /// The parent's job is complete: go.
    Formed(Granted),
    /// The parent's job cannot go on with what was claimed.
    Anew,
    /// The generation is over.
    Over,
    /// The parent's number of its generation has become known.
    Numbered,
}

#[derive(Debug)]
pub(super) struct Uplink {
    job: u16,
    parent: Parent,
    state: State,
    sessions: u64,
    session: u64,
    /// The number of the latest request, and of the latest one whose answer is out of date.
    number: u32,
    outdated: u32,
    told: Option<u8>,
    /// The parent's number of its generation, whatever session has been told of it.
    known: Option<u8>,
    cookie: u64,
    due: Option<Duration>,
    interval: Duration,
    /// When the latest request was sent, and since when there has been no answer.
    sent: Option<Duration>,
    silent: Option<Duration>,
    called: Option<Called>,
    joined: u16,
    waiting: u16,
    refused: Option<(Status, u32)>,
    /// Why an operation cannot end well, as the parent says.
    objection: Option<(Status, Option<Operations>)>,
    /// What it joined with.
    payload: u16,
    window: u16,
}

impl Uplink {
    /// `session` is that of the question with which it begins.
    pub(super) const fn new(job: u16, parent: Parent, session: u64) -> Self {
        Self {
            job,
            parent,
            state: State::Idle,
            sessions: 0,
            session,
            number: 0,
            outdated: 0,
            told: None,
            known: None,
            cookie: 0,
            // It asks for the parent's number at once.
            due: Some(Duration::ZERO),
            interval: FIRST_INTERVAL,
            sent: None,
            silent: None,
            called: None,
            joined: 0,
            waiting: 0,
            refused: None,
            objection: None,
            payload: 0,
            window: 0,
        }
    }

    pub(super) const fn parent(&self) -> &Parent {
        &self.parent
    }

    /// What the parent has granted, while this appliance is a member.
    pub(super) const fn granted(&self) -> Option<Granted> {
        if let State::Member(granted) = self.state { Some(granted) } else { None }
    }

    /// The payload that the parent's other ranks use, if that is not the one that was asked for.
    pub(super) fn other_payload(&self) -> Option<u32> {
        self.refused.filter(|(status, _)| *status == Status::PayloadMismatch).map(|(_, expected)| expected)
    }

    pub(super) const fn objection(&self) -> Option<(Status, Option<Operations>)> {
        self.objection
    }

    /// The number for a generation that is forming here after number `before`: far from the parent's, and so
    /// from those that workers have been in; each level is as far from the one above it. `None` until the
    /// parent has said its own.
    pub(super) fn apart(&self, before: u8) -> Option<u8> {
        let first = self.known?.wrapping_add(APART);
        let since = before.wrapping_sub(first);
        Some(if since < APART / 2 { before.wrapping_add(1) } else { first })
    }

    pub(super) const fn due(&self) -> Option<Duration> {
        self.due
    }

    pub(super) fn status(&self, now: Duration) -> UplinkStatus {
        let silent = self.silent.is_some_and(|since| now.saturating_sub(since) >= SILENT);
        let state = match (self.state, self.refused) {
            (State::Idle, _) if self.known.is_some() => UplinkState::Idle,
            (_, Some((status, _))) => UplinkState::Refused(status),
            _ if silent => UplinkState::NoAnswer,
            (State::Idle | State::Joining(_), None) => UplinkState::Pending,
            (State::Member(_), None) => UplinkState::Joined,
            (State::Leaving { .. }, None) => UplinkState::Leaving,
        };
        let workers = self.granted().map_or(0, |granted| granted.workers);
        let silent = self.silence(now);
        UplinkStatus { parent: self.parent, state, joined: self.joined, workers, silent }
    }

    /// For how long the parent has not answered.
    pub(super) fn silence(&self, now: Duration) -> Duration {
        self.silent.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// All are here: asks to be taken in. Nothing is done if it asks for the same already. `session` makes a
    /// session of a number.
    pub(super) fn join(&mut self, now: Duration, wish: Wish, session: impl Fn(u64) -> u64) {
        if let State::Joining(asked) = &mut self.state
            && (Wish { una: wish.una, ..*asked }) == wish
        {
            asked.una = wish.una;
            return;
        }
        self.sessions += 1;
        self.session = session(self.sessions);
        (self.told, self.cookie, self.outdated) = (None, 0, self.number);
        (self.refused, self.objection, self.called) = (None, None, None);
        (self.payload, self.window) = (wish.payload, wish.window);
        (self.state, self.silent) = (State::Joining(wish), Some(now));
        self.at_once(now);
    }

    /// Forgets the membership without a word: the parent has ended it, or the next session will.
    pub(super) const fn forget(&mut self) {
        (self.state, self.due) = (State::Idle, None);
        if self.known.is_none() {
            self.due = Some(Duration::ZERO);
        }
    }

    /// All have left here, having come as far as `called`. Gives how many wait at the parent, as long as that
    /// has not said that all have left there.
    pub(super) fn leave(&mut self, now: Duration, called: Option<Called>) -> Option<u16> {
        let until = now.saturating_add(LINGER);
        match &mut self.state {
            State::Member(granted) => {
                let epoch = granted.epoch;
                (self.state, self.outdated, self.waiting) = (State::Leaving { epoch, until }, self.number, 0);
                (self.refused, self.objection, self.called) = (None, None, called);
                self.at_once(now);
            }
            State::Leaving { until: end, .. } => *end = until,
            State::Idle | State::Joining(_) => return None,
        }
        Some(self.waiting)
    }

    /// A rank waits inside an operation.
    pub(super) fn waits(&mut self, now: Duration, called: Option<Called>) {
        if self.granted().is_some() {
            self.called = called.or(self.called);
            let next = self.sent.map_or(now, |sent| sent.saturating_add(LAST_INTERVAL));
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
        }
    }

    fn at_once(&mut self, now: Duration) {
        (self.due, self.interval) = (Some(now), FIRST_INTERVAL);
    }

    /// The request that is due, if one is.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Upward> {
        self.due.filter(|due| *due <= now)?;
        let mut control = Control::request(Action::Join, self.session);
        let (mut count, mut epoch) = (0, 0);
        match self.state {
            State::Idle if self.known.is_some() => {
                self.due = None;
                return None;
            }
            State::Idle => (control.got, control.cookie) = (ASK, self.cookie),
            State::Joining(wish) => {
                (control.expected, control.cookie, count) = (wish.resume, self.cookie, wish.workers);
                control.got = self.told.map_or(ASK, control::generation);
                (control.psn, control.first) = (wish.una, wish.una);
            }
            State::Member(granted) => {
                control.got = control::generation(granted.epoch);
                control = self.called.map_or(control, |called| called.describe(control));
            }
            State::Leaving { until, .. } if until <= now => {
                self.forget();
                return None;
            }
            State::Leaving { epoch: left, .. } => {
                (epoch, control.action) = (left, Action::Leave);
                control = self.called.map_or(control, |called| called.describe(control));
            }
        }
        if control.action == Action::Join {
            (control.payload, control.window) = (self.payload.max(QUESTION), self.window.max(1));
        }
        self.number = self.number.wrapping_add(1);
        // A member that nobody waits in says nothing.
        self.due = (!matches!(self.state, State::Member(_))).then(|| now.saturating_add(self.interval));
        self.interval = (self.interval * 3 / 2).min(LAST_INTERVAL);
        (self.sent, self.silent) = (Some(now), self.silent.or(Some(now)));
        let Parent { endpoint, rank, ranks } = self.parent;
        let header = Header::about(Kind::Control, Element::F32_SUM, self.job, epoch);
        let header = Header { rank, psn: self.number, fan_in: ranks, count, ..header };
        Some(Upward { to: endpoint, header, control })
    }

    /// An answer of the parent.
    pub(super) fn answered(
        &mut self,
        now: Duration,
        (header, ack): (&Header, &Control),
        operations: Option<Operations>,
    ) -> News {
        let Some(answers) = ack.answers else { return self.rejected(now, ack.status) };
        let asked = self.number.wrapping_sub(self.outdated);
        let new = header.psn.wrapping_sub(self.outdated).wrapping_sub(1) < asked;
        if ack.session != self.session || !new || header.rank != self.parent.rank {
            return News::Nothing;
        }
        (self.silent, self.joined) = (None, header.count);
        // What tells of the job tells a window, too.
        let visible = answers == Action::Join && ack.window > 0;
        self.known = if visible { Some(header.epoch) } else { self.known };
        match (self.state, answers) {
            (State::Idle, Action::Join) if self.known.is_some() => News::Numbered,
            (State::Idle, Action::Join) => {
                if core::mem::replace(&mut self.cookie, ack.cookie) != ack.cookie {
                    self.at_once(now);
                }
                self.refused = refusal(ack);
                News::Nothing
            }
            (State::Joining(wish), Action::Join) => self.joined(now, &wish, header, ack),
            (State::Member(granted), Action::Join) => match ack.status {
                Status::Ok | Status::Pending | Status::WrongEpoch if header.epoch == granted.epoch => {
                    self.objection = None;
                    News::Nothing
                }
                Status::TooMany => News::Nothing,
                Status::OperationMismatch | Status::RankLeft | Status::Halted => {
                    self.objection = Some((ack.status, operations));
                    News::Nothing
                }
                _ => self.over(),
            },
            (State::Leaving { .. }, Action::Leave) => match ack.status {
                Status::Pending => {
                    self.waiting = u16::try_from(ack.expected).unwrap_or(u16::MAX);
                    News::Nothing
                }
                Status::TooMany => News::Nothing,
                // It was started anew, or goes on in another generation: others may need those here.
                Status::WrongEpoch | Status::NotMember => self.over(),
                _ => {
                    self.forget();
                    News::Nothing
                }
            },
            _ => News::Nothing,
        }
    }

    const fn over(&mut self) -> News {
        self.forget();
        News::Over
    }

    fn joined(&mut self, now: Duration, wish: &Wish, header: &Header, ack: &Control) -> News {
        match ack.status {
            Status::Pending | Status::WrongEpoch => {
                self.refused = None;
                let told = if ack.window > 0 { Some(header.epoch) } else { self.told };
                let news = (told, ack.cookie);
                if (self.told, self.cookie) != news {
                    (self.told, self.cookie) = news;
                    self.outdated = self.number;
                    self.at_once(now);
                }
                News::Nothing
            }
            Status::Ok => {
                let claimed = Claim::of(wish.resume);
                let resumed = control::named_generation(ack.expected);
                let resumed = resumed.filter(|epoch| claimed.is_some_and(|claim| claim.contains(*epoch)));
                if claimed.is_some() && resumed.is_none() {
                    self.forget();
                    return News::Anew;
                }
                if ack.payload != wish.payload || ack.window == 0 {
                    return News::Nothing;
                }
                let workers = if ack.first > 0 { ack.first } else { u32::from(header.fan_in) };
                let (epoch, base, window) = (header.epoch, ack.psn, ack.window);
                let granted = Granted { epoch, base, window, resumed, workers };
                (self.state, self.due, self.outdated) = (State::Member(granted), None, self.number);
                self.refused = None;
                News::Formed(granted)
            }
            Status::TooMany => News::Nothing,
            _ => {
                // An operator may put it right: it goes on asking.
                self.refused = refusal(ack);
                News::Nothing
            }
        }
    }

    /// The parent has rejected a packet, perhaps since the generation is over: it is asked.
    fn rejected(&mut self, now: Duration, status: Status) -> News {
        if self.granted().is_some() && !matches!(status, Status::UnknownPsn | Status::TooMany) {
            self.waits(now, None);
        }
        News::Nothing
    }
}
