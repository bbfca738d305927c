//! What an appliance is to the one above it: one rank of its job.
//!
//! A state machine without I/O. It joins when all that the generation waits for have joined here, says that
//! they wait as they say it, and leaves after them. Each formation of the job here is a session of its own
//! there. The number of a generation and its first PSN are the parent's: so the claims of workers to go on
//! (protocol, section 9) hold at every level, and an appliance that starts anew has nothing to remember.

mod alive;
mod answers;
mod commands;
mod next_hop;
mod told;
mod ways;

use core::time::Duration;

use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::header::{Element, Header, Kind};
use pascaline_wire::trailer::Operations;

use super::claim::Claim;
use super::progress::Called;
use alive::Waited;
pub use next_hop::{HopStatus, Neighbour, Question};
pub use told::{Parent, UplinkState, UplinkStatus, Upward};
use ways::Ways;

/// The first interval between two requests, and the longest.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
const LAST_INTERVAL: Duration = Duration::from_millis(100);
/// The longest while it joins: a whole subtree waits for the answer, level by level.
const JOINING_INTERVAL: Duration = Duration::from_millis(40);
/// For so long after the last Leave of a worker the parent is asked whether all have left.
const LINGER: Duration = Duration::from_secs(5);
/// How far numbers of generations that are forming are from the parent's, at least: enough for five levels.
const APART: u16 = 0x3000;
/// How many there are, from there on.
const NUMBERS: u16 = APART / 2;
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
    /// What it wants to go on with.
    pub(super) resume: Option<Claim>,
    pub(super) payload: u16,
    pub(super) window: u16,
    /// The oldest PSN that a rank lacks.
    pub(super) una: u32,
    pub(super) workers: u32,
}

/// What the parent has granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) epoch: u16,
    pub(super) base: u32,
    pub(super) payload: u16,
    pub(super) window: u16,
    pub(super) resumed: Option<u16>,
    pub(super) workers: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Joining(Wish),
    Member(Granted),
    Leaving {
        epoch: u16,
        until: Duration,
    },
    /// The generation that it was in is to end for all; then it joins as wished, if it has been wished, in a
    /// session of this number.
    Resetting {
        epoch: u16,
        next: Option<(Wish, u64)>,
    },
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
    /// The job is suspended above, or is so no more.
    Suspended,
    /// A Halt that was given here holds for all now.
    HandedUp,
    /// Another parent is in force.
    Turned,
    /// Its session is over at the parent before it was told to go: another one has to ask.
    Displaced,
}

#[derive(Debug)]
pub(super) struct Uplink {
    job: u16,
    ways: Ways,
    state: State,
    sessions: u64,
    session: u64,
    /// The number of the latest request, and of the latest one whose answer is out of date.
    number: u32,
    outdated: u32,
    told: Option<u16>,
    /// The parent's number of its generation, whatever session has been told of it.
    known: Option<u16>,
    /// The number of the latest generation that was to form here, and which of them was the first.
    formed: Option<u16>,
    begins: u16,
    /// That of the latest generation that was complete here.
    complete: Option<u16>,
    cookie: u64,
    due: Option<Duration>,
    interval: Duration,
    /// When the latest request was sent, and since when there has been no answer.
    sent: Option<Duration>,
    /// When it last said anything as a member.
    said: Duration,
    silent: Option<Duration>,
    /// Since when it has been asked again and again without an answer.
    asking: Option<Duration>,
    called: Option<Called>,
    waited: Option<Waited>,
    /// They do not get on.
    stuck: bool,
    joined: u16,
    waiting: u16,
    refused: Option<(Status, u32)>,
    /// Why an operation cannot end well, as the parent says.
    objection: Option<(Status, Option<Operations>)>,
    /// A Halt has been given here that the parent does not know of yet.
    to_halt: bool,
    /// The parent says that the job is suspended; and it said so when it was last heard of that.
    halted: bool,
    was_halted: bool,
    /// A Reset has been given here while nobody was a member, and the parent may still be suspended.
    to_reset: bool,
    /// What it joined with.
    payload: u16,
    window: u16,
}

impl Uplink {
    /// `session` is that of the question with which it begins.
    pub(super) fn new(job: u16, parent: Parent, backups: &[Parent], session: u64) -> Self {
        Self {
            job,
            ways: Ways::new(parent, backups),
            state: State::Idle,
            sessions: 0,
            session,
            number: 0,
            outdated: 0,
            told: None,
            known: None,
            formed: None,
            complete: None,
            begins: u16::try_from(session % u64::from(NUMBERS)).unwrap_or(0),
            cookie: 0,
            // It asks for the parent's number at once.
            due: Some(Duration::ZERO),
            interval: FIRST_INTERVAL,
            sent: None,
            said: Duration::ZERO,
            silent: None,
            asking: None,
            called: None,
            waited: None,
            stuck: false,
            joined: 0,
            waiting: 0,
            refused: None,
            objection: None,
            to_halt: false,
            halted: false,
            was_halted: false,
            to_reset: false,
            payload: 0,
            window: 0,
        }
    }

    /// The parent in force.
    pub(super) fn parent(&self) -> &Parent {
        self.ways.in_force()
    }

    /// What the parent has granted, while this appliance is a member.
    pub(super) const fn granted(&self) -> Option<Granted> {
        if let State::Member(granted) = self.state { Some(granted) } else { None }
    }

    /// The payload that the parent's other ranks use, if that is not the one that was asked for.
    pub(super) fn other_payload(&self) -> Option<u32> {
        self.refused.filter(|(status, _)| *status == Status::PayloadMismatch).map(|(_, expected)| expected)
    }

    /// True if the parent has given one of its ranks up: what those here claim cannot be gone on with.
    pub(super) fn is_given_up(&self) -> bool {
        self.refused.is_some_and(|(status, _)| matches!(status, Status::RankLost | Status::RankLeft))
    }

    pub(super) const fn objection(&self) -> Option<(Status, Option<Operations>)> {
        self.objection
    }

    /// True until the parent has said its number.
    pub(super) const fn lacks_number(&self) -> bool {
        self.known.is_none()
    }

    /// The number for the next generation that forms here, after the one numbered `before`: far from the
    /// parent's, and so from those that workers have been in; each level is as far from the one above it. It
    /// is another one than those of the generations before, as far as may be, also where this appliance was
    /// started anew: a Join that is still under way names one of those, and so do heartbeats of whoever is in
    /// one, which would make their senders members that start from nothing. `None` until the parent has said
    /// its own.
    pub(super) fn next_number(&mut self, before: u16) -> Option<u16> {
        let first = self.known?.wrapping_add(APART);
        let since = self.formed.map(|formed| formed.wrapping_sub(first)).filter(|since| *since < NUMBERS);
        let next = since.map_or(self.begins, |since| since + 1);
        let mut numbers = (next..=next + 2).map(|next| first.wrapping_add(next % NUMBERS));
        self.formed = numbers.find(|&number| number != before && Some(number) != self.complete);
        self.formed
    }

    /// A generation is complete here.
    pub(super) const fn completed(&mut self, epoch: u16) {
        self.complete = Some(epoch);
    }

    pub(super) fn due(&self) -> Option<Duration> {
        let hops = self.ways.hops_due();
        self.due.into_iter().chain(self.question_due()).chain(self.alive_due()).chain(hops).min()
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
        let session = session(self.sessions);
        match &mut self.state {
            State::Resetting { next, .. } => *next = Some((wish, session)),
            _ => self.ask_for(now, wish, session),
        }
    }

    fn ask_for(&mut self, now: Duration, wish: Wish, session: u64) {
        self.session = session;
        (self.told, self.cookie, self.outdated) = (None, 0, self.number);
        (self.refused, self.objection, self.called) = (None, None, None);
        (self.waited, self.stuck) = (None, false);
        (self.payload, self.window) = (wish.payload, wish.window);
        (self.state, self.silent, self.asking) = (State::Joining(wish), Some(now), None);
        self.ways.begin(now);
        self.at_once(now);
    }

    /// Forgets the membership without a word: the parent has ended it, or the next session will.
    pub(super) const fn forget(&mut self) {
        self.halted = false;
        if let State::Resetting { next, .. } = &mut self.state {
            *next = None;
            return;
        }
        (self.state, self.due) = (State::Idle, None);
        if self.known.is_none() {
            self.due = Some(Duration::ZERO);
        }
    }

    /// All have left here, having come as far as `called`. Gives how many wait at the parent, as long as that
    /// has not said that all have left there.
    pub(super) fn leave(&mut self, now: Duration, called: Called) -> Option<u16> {
        let until = now.saturating_add(LINGER);
        match &mut self.state {
            State::Member(granted) => {
                let epoch = granted.epoch;
                (self.state, self.outdated, self.waiting) = (State::Leaving { epoch, until }, self.number, 0);
                (self.refused, self.objection, self.called) = (None, None, Some(called));
                self.ways.hold(false);
                self.at_once(now);
            }
            State::Leaving { until: end, .. } => *end = until,
            State::Idle | State::Joining(_) | State::Resetting { .. } => return None,
        }
        Some(self.waiting)
    }

    /// A rank has sent a heartbeat; `called` is what those inside an operation say.
    pub(super) fn waits(&mut self, now: Duration, called: Option<Called>) {
        if self.granted().is_some() {
            if let Some(called) = called {
                self.note_waiting(now, called);
            }
            self.called = called.or_else(|| self.called.map(Called::ended));
            self.ask_soon(now);
        }
    }

    fn ask_soon(&mut self, now: Duration) {
        let next = self.sent.map_or(now, |sent| sent.saturating_add(LAST_INTERVAL));
        self.due = Some(self.due.map_or(next, |due| due.min(next)));
    }

    fn at_once(&mut self, now: Duration) {
        (self.due, self.interval) = (Some(now), FIRST_INTERVAL);
    }

    /// The request that is due, if one is.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Upward> {
        let due = self.request(now).or_else(|| self.question(now)).or_else(|| self.alive(now));
        due.and_then(next_hop::with_mac)
    }

    fn request(&mut self, now: Duration) -> Option<Upward> {
        self.due.filter(|due| *due <= now)?;
        let mut control = Control::request(Action::Join, self.session);
        let mut epoch = 0;
        match self.state {
            State::Idle if self.known.is_some() => {
                self.due = None;
                return None;
            }
            State::Idle => (control.got, control.cookie, control.workers) = (ASK, self.cookie, 1),
            State::Joining(wish) => {
                control = wish.resume.map_or(control, |claim| claim.describe(control));
                (control.cookie, control.workers) = (self.cookie, wish.workers);
                control.got = self.told.map_or(ASK, control::generation);
                (control.psn, control.first) = (wish.una, wish.una);
            }
            State::Resetting { epoch: ended, .. } => (epoch, control.action) = (ended, Action::Reset),
            State::Member(granted) if self.to_halt => {
                (epoch, control.action) = (granted.epoch, Action::Halt);
            }
            State::Member(granted) => {
                control.got = control::generation(granted.epoch);
                control = self.called.map_or(control, |called| called.describe(control));
            }
            State::Leaving { until, .. } if until <= now => {
                self.forget();
                return None;
            }
            // Else a Halt would be lost with those who have failed for it.
            State::Leaving { epoch: left, .. } if self.to_halt => {
                (epoch, control.action) = (left, Action::Halt);
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
        // A member that nobody waits in asks nothing; while the job is suspended nobody waits for long.
        let silent = matches!(self.state, State::Member(_)) && !self.halted && !self.to_halt;
        self.due = (!silent).then(|| now.saturating_add(self.interval));
        let joins = matches!(self.state, State::Joining(_));
        let last = if joins { JOINING_INTERVAL } else { LAST_INTERVAL };
        self.interval = (self.interval * 3 / 2).min(last);
        let lately = |sent| now.saturating_sub(sent) < ways::PATIENCE;
        self.asking = self.asking.filter(|_| self.sent.is_some_and(lately)).or(Some(now));
        (self.sent, self.said, self.silent) = (Some(now), now, self.silent.or(Some(now)));
        control.number = self.number;
        Some(self.parent().asked(Header::about(Kind::Control, Element::F32_SUM, self.job, epoch), control))
    }
}

#[cfg(test)]
mod tests;
