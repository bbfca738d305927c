//! What an appliance is to the one above it: one rank of its job.
//!
//! A state machine without I/O. It joins when all that the generation waits for have joined here, says that
//! they wait as they say it, and leaves after them. Each formation of the job here is a session of its own
//! there. The number of a generation and its first PSN are the parent's: so the claims of workers to go on
//! (protocol, section 9) hold at every level, and an appliance that starts anew has nothing to remember.

mod answers;
mod commands;
mod next_hop;
mod numbers;
mod seals;
mod silence;
mod state;
mod told;
mod ways;

use core::time::Duration;

use pascaline_seal::Holder;
use pascaline_wire::asking::{Asking, LAST_INTERVAL, Requests};
use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::frame::Mac;
use pascaline_wire::trailer::Operations;

use super::progress::Called;
use crate::seals::Demand;
use commands::Halted;
pub use next_hop::{HopStatus, Neighbour, Question};
use numbers::Numbers;
use silence::Silence;
pub(super) use state::{Granted, Wish};
use state::{Member, State};
pub use told::{Parent, UplinkState, UplinkStatus, Upward};
use ways::{HOLD, Ways};

/// The longest interval between two requests while it joins: a whole subtree waits for the answer, level by
/// level.
const JOINING_INTERVAL: Duration = Duration::from_millis(40);
/// For so long after the last Leave of a worker the parent is asked whether all have left.
const LINGER: Duration = Duration::from_secs(5);
/// A member that nobody waits in says this often that it is alive: another one that wants its place learns
/// by that whether it has it.
const ALIVE: Duration = Duration::from_millis(150);
/// The payload of a Join that only asks.
const QUESTION: u16 = 8;

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
    /// The job is suspended above, or is so no more; or another parent is in force.
    Changed,
    /// A Halt that was given here holds for all now.
    HandedUp,
    /// Its session is over at the parent before it was told to go: another one has to ask.
    Displaced,
}

/// Makes what is due.
type Sender = fn(&mut Uplink, Duration) -> Option<Upward>;

/// What every [state](State) needs. What only one of them needs is in its variant.
#[derive(Debug)]
pub(super) struct Uplink {
    job: u16,
    ways: Ways,
    state: State,
    sessions: u64,
    /// The number of its present session at the parent.
    pub(super) session: u64,
    requests: Requests,
    /// When the next request of its state is due.
    asking: Asking,
    silence: Silence,
    pub(super) numbers: Numbers,
    cookie: u64,
    /// Ranks of the parent's job that have joined, by its latest answer.
    joined: u16,
    /// Why the parent refuses, by its latest answer to a Join.
    refused: Option<(Status, u32)>,
    /// A Halt has been given here that the parent does not know of yet.
    to_halt: bool,
    halted: Halted,
    demand: Demand,
}

impl Uplink {
    /// `session` is that of the question with which it begins. `keys` has those of each parent, if packets
    /// are sealed.
    pub(super) fn new(
        job: u16,
        (parent, backups): (Parent, &[Parent]),
        keys: &[Holder],
        session: u64,
    ) -> Self {
        Self {
            job,
            ways: Ways::new(parent, backups, keys),
            state: State::Idle,
            sessions: 0,
            session,
            requests: Requests::default(),
            // It asks for the parent's number at once.
            asking: Asking::new(Duration::ZERO),
            silence: Silence::default(),
            numbers: Numbers::new(session),
            cookie: 0,
            joined: 0,
            refused: None,
            to_halt: false,
            halted: Halted::No,
            demand: Demand::default(),
        }
    }

    /// The parent in force.
    pub(super) fn parent(&self) -> &Parent {
        &self.ways.all[self.ways.at].parent
    }

    /// What the parent has granted, while this appliance is a member.
    pub(super) fn granted(&self) -> Option<Granted> {
        self.state.member().map(|member| member.granted)
    }

    /// The payload that the parent's other ranks use, if that is not the one that was asked for.
    pub(super) fn other_payload(&self) -> Option<u32> {
        self.refused.filter(|(status, _)| *status == Status::PayloadMismatch).map(|(_, expected)| expected)
    }

    /// True if the parent has given one of its ranks up: what those here claim cannot be gone on with.
    pub(super) fn is_given_up(&self) -> bool {
        self.refused.is_some_and(|(status, _)| matches!(status, Status::RankLost | Status::RankLeft))
    }

    /// Why an operation cannot end well, as the parent says.
    pub(super) fn objection(&self) -> Option<(Status, Option<Operations>)> {
        self.state.member()?.objection
    }

    /// True until the parent has said its number.
    pub(super) const fn lacks_number(&self) -> bool {
        self.numbers.known.is_none()
    }

    /// What is sent when, the most urgent first; [`Duration::MAX`] for never. Everything else that depends on
    /// the time is checked when one of these is due, since there is always one while it matters: a silent
    /// parent or a better one ([`look_round`](Self::look_round)), a MAC in doubt, the end of [`LINGER`].
    fn timers(&self) -> [(Duration, Sender); 4] {
        [
            (self.asking.due(), Self::request),
            (self.question_due(), Self::question),
            (
                self.state.member().map_or(Duration::MAX, |member| member.said.saturating_add(ALIVE)),
                Self::alive,
            ),
            // Packets of another kind, which `ask_hops` makes.
            (self.ways.hops_due(), |_, _| None),
        ]
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.timers().into_iter().map(|(due, _)| due).min().filter(|due| *due < Duration::MAX)
    }

    /// The request that is due, if one is and the MAC that it would go to is known.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Upward> {
        let mut due = self.timers().into_iter().filter(|(due, _)| *due <= now);
        due.find_map(|(_, send)| send(self, now)).filter(|upward| upward.to.mac != Mac::default())
    }

    /// All are here: asks to be taken in. Nothing is done if it asks for the same already. `session` makes a
    /// session of a number.
    pub(super) fn join(&mut self, now: Duration, wish: Wish, session: impl Fn(u64) -> u64) {
        if let State::Joining { wish: asked, .. } = &mut self.state
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
        (self.session, self.cookie, self.refused) = (session, 0, None);
        self.silence.begin(Some(now));
        self.ways.held = self.ways.held.min(now.saturating_add(HOLD));
        self.enter(State::Joining { wish, told: None });
    }

    /// What it asked in the state before is answered no more.
    fn enter(&mut self, state: State) {
        self.state = state;
        self.requests.outdate();
        self.asking.begin_again();
    }

    /// Forgets the membership without a word: the parent has ended it, or the next session will.
    pub(super) fn forget(&mut self) {
        self.halted = self.halted.past();
        if let State::Resetting { next, .. } = &mut self.state {
            *next = None;
            return;
        }
        self.state = State::Idle;
        if self.lacks_number() { self.asking.hasten(Duration::ZERO) } else { self.asking.stop() }
    }

    /// All have left here, having come as far as `called`. Gives how many wait at the parent, as long as that
    /// has not said that all have left there.
    pub(super) fn leave(&mut self, now: Duration, called: Called) -> Option<u16> {
        let end = now.saturating_add(LINGER);
        match &mut self.state {
            State::Member(member) => {
                let epoch = member.granted.epoch;
                self.ways.held = Duration::ZERO;
                self.refused = None;
                self.enter(State::Leaving { epoch, until: end, called, waiting: 0 });
                Some(0)
            }
            State::Leaving { until, waiting, .. } => {
                *until = end;
                Some(*waiting)
            }
            State::Idle | State::Joining { .. } | State::Resetting { .. } => None,
        }
    }

    /// A rank has sent a heartbeat; `called` is what those inside an operation say.
    pub(super) fn waits(&mut self, now: Duration, called: Option<Called>) {
        if let State::Member(member) = &mut self.state {
            member.waits(now, called);
            self.ask_soon();
        }
    }

    fn ask_soon(&mut self) {
        self.asking.hasten(self.silence.sent.saturating_add(LAST_INTERVAL));
    }

    /// A request of its session, with the latest number.
    const fn asks(&self, action: Action) -> Control {
        Control { number: self.requests.latest(), ..Control::request(action, self.session) }
    }

    /// A Join that says what it can take.
    fn join_request(&self) -> Control {
        let (payload, window) = self.state.wish().map_or((0, 0), |wish| (wish.payload, wish.window));
        Control { payload: payload.max(QUESTION), window: window.max(1), ..self.asks(Action::Join) }
    }

    /// What its state has to ask.
    fn request(&mut self, now: Duration) -> Option<Upward> {
        if let State::Leaving { until, .. } = self.state
            && until <= now
        {
            self.forget();
            return None;
        }
        self.requests.next();
        let (epoch, control) = match self.state {
            State::Idle => (0, Control { got: ASK, cookie: self.cookie, workers: 1, ..self.join_request() }),
            State::Joining { wish, told } => {
                let (got, cookie) = (control::naming(told), self.cookie);
                (0, Control { got, cookie, ..wish.describe(self.join_request()) })
            }
            // Also while it leaves: else a Halt would be lost with those who have failed for it.
            State::Member(Member { granted: Granted { epoch, .. }, .. }) | State::Leaving { epoch, .. }
                if self.to_halt =>
            {
                (epoch, self.asks(Action::Halt))
            }
            State::Member(member) => (0, member.describe(self.join_request())),
            State::Leaving { epoch, called, .. } => (epoch, called.describe(self.asks(Action::Leave))),
            State::Resetting { epoch, .. } => (epoch, self.asks(Action::Reset)),
        };
        self.asking.is_due(now);
        match &mut self.state {
            State::Joining { .. } => self.asking.shorten(JOINING_INTERVAL),
            State::Member(member) => {
                member.said = now;
                // If nobody waits in it, it asks nothing; while the job is suspended nobody waits for long.
                if !self.is_halted() && !self.to_halt {
                    self.asking.stop();
                }
            }
            State::Idle | State::Leaving { .. } | State::Resetting { .. } => {}
        }
        self.silence.asked(now);
        Some(self.parent().asked(self.job, epoch, control))
    }

    /// A Query, by which a member that has nothing to ask says that it is alive.
    fn alive(&mut self, now: Duration) -> Option<Upward> {
        let State::Member(member) = &mut self.state else { return None };
        member.said = now;
        let Granted { epoch, base, .. } = member.granted;
        self.requests.next();
        let query = Control { psn: base, ..self.asks(Action::Query) };
        Some(self.parent().asked(self.job, epoch, query))
    }
}

#[cfg(test)]
mod tests;
