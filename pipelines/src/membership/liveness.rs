//! What time alone changes: ranks die, and jobs that exist by Joins are forgotten.

use core::time::Duration;

use pascaline_wire::control::Action;
use pascaline_wire::frame::{Address, Mac};

use super::generation::State;
use super::job::JobRecord;
use super::join::AWAY;
use super::rank::{Joined, Rank};
use super::spec::{Admission, OnDeath};
use super::uplink::Uplink;

/// After how long a job that exists by Joins is forgotten if all who were joining have given up, where the
/// job sets no time of its own: a hundred times the longest interval between two Joins.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// A rank that waits for the others to join asks every 20 to 100 ms: one that has been silent for so long
/// has given up, and counts no more.
const JOINING: Duration = Duration::from_secs(3);

/// How often it is looked at who has contributed while ranks say that they wait: with a thousand ranks that
/// is a thousand loads.
const LOOKS: Duration = Duration::from_millis(250);

/// Something that time has brought about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Ranks have died.
    Lost {
        /// Their job.
        job: u16,
        /// The generation that they were waited for in.
        epoch: u16,
        /// The ranks.
        ranks: Vec<u16>,
        /// What follows.
        on_death: OnDeath,
    },
    /// A rank that waited for the others to join has fallen silent, and is a member no more.
    GaveUp {
        /// Its job.
        job: u16,
        /// The rank.
        rank: u16,
    },
    /// Nothing has been heard of a job's parameter server for [`SILENCE`](super::SILENCE).
    ServerGone {
        /// The job, which goes on as without one.
        job: u16,
        /// It has been here before.
        came: bool,
    },
    /// A job that was formed by Joins is no more.
    Forgotten {
        /// The job.
        job: u16,
    },
    /// Nobody says who has the address by which a parent is reached.
    HopSilent {
        /// The job.
        job: u16,
        /// The parent.
        parent: Address,
        /// The address: the parent's, or that of a router on the way.
        address: Address,
    },
    /// It has been said, and is news.
    HopFound {
        /// The job.
        job: u16,
        /// The parent.
        parent: Address,
        /// The address.
        address: Address,
        /// Who has it.
        mac: Mac,
    },
}

impl JobRecord {
    /// Takes note that a rank is alive, as this action of it says: at this time, which is that one by the
    /// lcores' clock. An appliance's Queries say nothing of its ranks, which may all be dead.
    pub(super) fn hear(&mut self, clocks: (Duration, u64), rank: u16, action: Action) {
        let now = clocks.0;
        (self.heard, self.clocks) = (self.heard.max(now), clocks);
        let joined = self.ranks.get_mut(usize::from(rank)).and_then(|rank| rank.joined.as_mut());
        if let Some(joined) = joined.filter(|joined| !joined.is_appliance() || action != Action::Query) {
            joined.heard = joined.heard.max(now);
        }
        if self.looked.saturating_add(LOOKS) <= now {
            self.note_all_sent(now);
        }
    }

    /// Takes note of who has contributed: a rank for which the others wait each time need never wait itself,
    /// and then says nothing.
    fn note_all_sent(&mut self, now: Duration) {
        (0..self.spec.fan_in).for_each(|rank| self.note_sent(now, rank));
        self.looked = now;
    }

    /// The same of one rank.
    pub(super) fn note_sent(&mut self, now: Duration, rank: u16) {
        let Some(sent) = self.cells.contributions_of(rank) else { return };
        if let Some(joined) =
            self.ranks[usize::from(rank)].joined.as_mut().filter(|joined| joined.sent.0 != sent)
        {
            let (then, lcores) = self.clocks;
            let since_then = then + Duration::from_nanos(self.cells.heard_ns(rank));
            let last = since_then.saturating_sub(Duration::from_nanos(lcores));
            // Not before it was last looked at. The clocks differ where the process was stopped.
            let last = last.max(self.looked).max(joined.sent.1).min(now);
            joined.sent = (sent, last);
            self.heard = self.heard.max(last);
        }
    }

    /// True if the job is to be forgotten, if it exists by Joins: nobody is there or nothing has been heard.
    pub(super) fn is_over(&self, now: Duration, admission: &Admission) -> bool {
        let silent = now.saturating_sub(self.heard);
        let given_up = self.given_up_after(admission);
        let deserted = self.members().next().is_none();
        silent >= admission.idle || deserted && silent >= given_up
    }

    /// Lets time pass. True if lcores need a new table.
    pub(super) fn elapse(&mut self, now: Duration, events: &mut Vec<Event>) -> bool {
        self.note_all_sent(now);
        let deserted = self.miss_server(now, events);
        let limit = self.patience();
        let gave_up = self.state.is_forming() && limit.is_some_and(|limit| self.give_up(now, limit, events));
        let lost = match (&self.state, limit) {
            (State::Forming { .. }, _) if self.absent_due().is_some_and(|due| due <= now) => {
                self.numbers(|rank| rank.joined.is_none() && !rank.lost)
            }
            (State::Complete(_), Some(limit)) => self.dead(now, limit),
            _ => Vec::new(),
        };
        self.lose(now, &lost, events) | self.settle_keys(now) || gave_up || deserted
    }

    /// For how long a member may be silent; `None` for ever.
    fn patience(&self) -> Option<Duration> {
        match (&self.state, &self.uplink) {
            (State::Forming { .. }, _) if self.spec.kind.registry().is_some() => None,
            // The parent would count it here while it may be elsewhere.
            (State::Forming { .. }, Some(_)) => Some(AWAY),
            (State::Forming { .. }, None) => Some(JOINING),
            (State::Complete(_), _) => self.spec.dead_after,
            (State::Broken(_), _) => None,
        }
    }

    /// Takes out whoever has joined a generation that is not complete and does not ask again.
    fn give_up(&mut self, now: Duration, limit: Duration, events: &mut Vec<Event>) -> bool {
        let silent = |joined: Joined| joined.heard.saturating_add(limit) <= now;
        let gone = self.numbers(|rank| rank.joined.is_some_and(silent));
        for &number in &gone {
            self.remove(usize::from(number));
            events.push(Event::GaveUp { job: self.spec.id, rank: number });
        }
        !gone.is_empty()
    }

    /// The ranks that nothing is heard of although others wait for them. Those that have left are among them
    /// where no PSN can be complete without them: as long as others may need them, they are heard of.
    fn dead(&self, now: Duration, limit: Duration) -> Vec<u16> {
        let recently = |at: Duration| at.saturating_add(limit / 2) > now;
        // Asynchronous ones never say that they wait.
        if !self.present().any(|(_, joined)| joined.beat.is_some_and(recently)) {
            return Vec::new();
        }
        let wanted = |rank: &Rank| rank.present() || rank.left && self.needed() > self.joined();
        let silent = |joined: Joined| joined.seen().saturating_add(limit) <= now;
        self.numbers(|rank| wanted(rank) && rank.joined.is_some_and(silent))
    }

    pub(super) fn numbers(&self, which: impl Fn(&Rank) -> bool) -> Vec<u16> {
        (0..).zip(&self.ranks).filter(|(_, rank)| which(rank)).map(|(number, _)| number).collect()
    }

    /// Ranks have died. True if lcores need a new table.
    pub(super) fn lose(&mut self, now: Duration, lost: &[u16], events: &mut Vec<Event>) -> bool {
        if lost.is_empty() {
            return false;
        }
        let on_death = self.spec.on_death;
        events.push(Event::Lost { job: self.spec.id, epoch: self.epoch, ranks: lost.to_vec(), on_death });
        for &number in lost {
            let rank = &mut self.ranks[usize::from(number)];
            // Where it has not come to this generation, it is the session that was in the one before: it may
            // be joining as if nothing had happened, and would have everybody begin anew. Not one that has
            // been told to begin anew itself.
            if let Some(latest) = rank.latest.as_mut().filter(|_| rank.joined.is_some() || !rank.anew) {
                latest.lost = true;
            }
            rank.lost = true;
        }
        match on_death {
            OnDeath::Fail => {
                let called = self.furthest_behind();
                self.state.break_up();
                if let Some(uplink) = &mut self.uplink {
                    let _ = uplink.leave(now, called);
                }
                false
            }
            OnDeath::Continue => {
                if !self.state.is_forming() {
                    self.go_on();
                }
                self.complete(now);
                true
            }
        }
    }

    /// Sets `due`: not before then can [`elapse`](Self::elapse) or [`is_over`](Self::is_over) come to
    /// anything, unless something is heard. And `overdue`: a rank has been silent for longer than the limit
    /// while nobody waited for it, so the next heartbeat decides.
    pub(super) fn schedule(&mut self, now: Duration, admission: Option<&Admission>) {
        let first_silent =
            |limit| self.members().map(|(_, joined)| joined.seen().saturating_add(limit)).min();
        let silent = self.patience().and_then(first_silent);
        self.overdue = self.state.running().is_some() && silent.is_some_and(|due| due <= now);
        let timers = [
            // The job is forgotten.
            admission.filter(|_| self.founder.is_some()).map(|admission| {
                let deserted = self.heard.saturating_add(self.given_up_after(admission));
                if deserted > now { deserted } else { self.heard.saturating_add(admission.idle) }
            }),
            // A member has given up waiting for others, or is dead.
            silent.filter(|_| !self.overdue),
            // Others do not come.
            self.absent_due(),
            // The parameter server is gone.
            self.server_due(),
            // There is something to ask a parent, or who leads there.
            self.uplink.as_ref().and_then(Uplink::due),
            // Its keys change.
            self.keys_due(now),
        ];
        self.due = timers.into_iter().flatten().min();
    }

    /// After how long without a sign of life the job is forgotten if it has no members.
    fn given_up_after(&self, admission: &Admission) -> Duration {
        self.spec.dead_after.unwrap_or(GIVEN_UP).min(admission.idle)
    }

    /// When the ranks that do not come are lost, if all others wait to resume with them.
    fn absent_due(&self) -> Option<Duration> {
        let State::Forming { since } = self.state else { return None };
        self.common_claim().and(self.spec.dead_after).map(|limit| since.saturating_add(limit))
    }
}
