//! The appliances that a job's sums may go to: one is in force, and the others are asked after while one is
//! sought.
//!
//! All ranks of a parent have to come to the same one. So they go by what they hear: to one whose job is
//! complete, since its generation is under way; else to the first of the list that answers. And they leave
//! one that is silent while they have something to ask.

use core::time::Duration;

use pascaline_seal::Holder;
use pascaline_wire::control::{ASK, Action, Control, Status};
use pascaline_wire::frame::Address;

use super::next_hop::NextHop;
use super::seals::End;
use super::silence::PATIENCE;
use super::{News, Parent, State, Uplink, Upward};
use crate::membership::job::source;

/// For so long one that had the job, or has it, is not left for an earlier one that answers: the others may
/// come to it.
pub(super) const HOLD: Duration = Duration::from_secs(2);
/// Between two questions to those that are not in force, each in its turn.
const BETWEEN: Duration = Duration::from_millis(100);
/// What was heard longer ago says nothing of now.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Way {
    pub(super) parent: Parent,
    pub(super) hop: Option<NextHop>,
    /// If packets to it are sealed.
    pub(super) end: Option<End>,
    cookie: u64,
    /// When it last answered while it was not in force, and how many ranks wait there by that answer. If any
    /// does, all have joined, among them an earlier life of this appliance.
    heard: Option<(Duration, u32)>,
}

impl Way {
    /// True if so many ranks wait there, by what was heard of it lately.
    fn has(&self, now: Duration, waiting: u32) -> bool {
        self.heard.is_some_and(|(heard, ranks)| now.saturating_sub(heard) < FRESH && ranks >= waiting)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    pub(super) at: usize,
    /// Until then an earlier one that answers is no reason to go there. That is never while this appliance is
    /// a member, until it has left in good order.
    pub(super) held: Duration,
    /// How often a MAC has been asked for.
    pub(super) questions: u64,
    /// Which is to be asked next, and when.
    asked: usize,
    due: Duration,
}

impl Ways {
    /// At least one, the first in force; with the keys of each, if packets are sealed.
    pub(super) fn new(first: Parent, others: &[Parent], keys: &[Holder]) -> Self {
        let way = |(at, &parent): (usize, &Parent)| {
            let (hop, end) = (parent.next_hop.map(NextHop::new), keys.get(at).map(End::new));
            Way { parent, hop, end, cookie: 0, heard: None }
        };
        let all = core::iter::once(&first).chain(others).enumerate().map(way).collect();
        Self { all, at: 0, held: Duration::ZERO, questions: 0, asked: 0, due: Duration::ZERO }
    }

    pub(super) fn hops_due(&self) -> Duration {
        self.all.iter().filter_map(|way| way.hop?.due).min().unwrap_or(Duration::MAX)
    }

    pub(super) const fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The first of which something was heard lately, where so many ranks wait.
    fn first(&self, now: Duration, waiting: u32) -> Option<usize> {
        self.all.iter().position(|way| way.has(now, waiting))
    }

    /// Where to go rather than to the one in force, if that is `silent` or not.
    fn better(&self, now: Duration, silent: bool) -> Option<usize> {
        let (whole, first) = (self.first(now, 1), self.first(now, 0));
        match () {
            () if silent => Some(whole.or(first).unwrap_or_else(|| self.next())),
            () if now < self.held => None,
            () => whole.or_else(|| first.filter(|&first| first < self.at)),
        }
    }

    const fn next(&self) -> usize {
        (self.at + 1) % self.all.len()
    }
}

impl Uplink {
    /// The parents that may be in force, as senders of answers.
    pub(in crate::membership) fn senders(&self) -> impl Iterator<Item = (Address, u16)> {
        self.ways.all.iter().map(|way| source(&way.parent.endpoint))
    }

    /// True if the one in force is one of these.
    pub(in crate::membership) fn stays_with(&self, first: &Parent, others: &[Parent]) -> bool {
        core::iter::once(first).chain(others).any(|parent| *parent == self.parent().written())
    }

    /// Other parents than before, the one in force among them.
    pub(in crate::membership) fn replace(&mut self, first: Parent, others: &[Parent], keys: &[Holder]) {
        let in_force = self.parent().written();
        let Ways { all, .. } = Ways::new(first, others, keys);
        self.ways.at = all.iter().position(|way| way.parent == in_force).unwrap_or(0);
        let mut old = core::mem::replace(&mut self.ways.all, all);
        for (place, way) in self.ways.all.iter_mut().enumerate() {
            // What is known of those that stay, and their MACs.
            if let Some(at) = old.iter().position(|old| old.parent.written() == way.parent) {
                *way = old.swap_remove(at);
                if let (Some(end), Some(holder)) = (&mut way.end, keys.get(place)) {
                    end.offer(holder);
                }
            }
        }
        // The answer to a request shows whether the parent has the keys that are offered.
        if self.granted().is_some() {
            self.ask_soon();
        }
    }

    /// An answer of one that is not in force. True if it is one.
    pub(in crate::membership) fn overheard(
        &mut self,
        now: Duration,
        sender: (Address, u16),
        ack: &Control,
    ) -> bool {
        let other = self.senders().position(|parent| parent == sender);
        let Some(other) = other.filter(|&other| other != self.ways.at) else { return false };
        let way = &mut self.ways.all[other];
        if ack.session == self.session && ack.answers == Some(Action::Join) {
            let tells = ack.status == Status::Pending && ack.window > 0;
            (way.heard, way.cookie) = (Some((now, if tells { ack.expected } else { 0 })), ack.cookie);
        }
        true
    }

    /// True while a parent is sought: none has taken it in, and there is something to ask; or nothing gets on
    /// at one that is not the first.
    fn is_seeking(&self) -> bool {
        let asks = match &self.state {
            State::Joining { .. } => true,
            State::Idle => self.lacks_number(),
            State::Member(member) => member.is_stuck() && self.ways.at > 0,
            State::Leaving { .. } | State::Resetting { .. } => false,
        };
        asks && self.ways.are_several()
    }

    /// Goes to another parent where that is better, or the present one is silent.
    pub(in crate::membership) fn look_round(&mut self, now: Duration) -> News {
        if !self.ways.are_several() {
            return News::Nothing;
        }
        let (silent, seeking) = (self.silence.unanswered(now) >= PATIENCE, self.is_seeking());
        let to = match &mut self.state {
            // Those who have left are needed again: only they may have what the other ranks lack.
            State::Member(_) | State::Leaving { .. } | State::Resetting { .. } if silent => {
                Some(self.ways.next())
            }
            State::Member(member) => {
                member.forget_waits(now);
                // Others wait for this appliance at an earlier one: they have come to different ones.
                self.ways.first(now, 2).filter(|&to| to < self.ways.at && member.is_stuck())
            }
            _ if seeking => self.ways.better(now, silent),
            _ => None,
        };
        let Some(to) = to else { return News::Nothing };
        self.turn(now, to);
        match self.state {
            State::Member(_) | State::Leaving { .. } => self.end(News::Over),
            State::Resetting { .. } => self.go_on(now),
            State::Idle | State::Joining { .. } => News::Changed,
        }
    }

    /// Has another parent in force, and asks it what it would have asked this one.
    fn turn(&mut self, now: Duration, to: usize) {
        self.ways.at = to;
        let way = &mut self.ways.all[to];
        if let Some(hop) = &mut way.hop {
            hop.doubt(now);
        }
        self.cookie = way.cookie;
        // What it says from now on is no longer overheard.
        let whole = way.heard.take().is_some_and(|(_, waiting)| waiting > 0);
        self.ways.held = if whole { now.saturating_add(HOLD) } else { Duration::ZERO };
        if let State::Joining { told, .. } = &mut self.state {
            *told = None;
        }
        (self.refused, self.joined) = (None, 0);
        self.halted = self.halted.past();
        self.requests.outdate();
        self.demand.forget();
        self.silence.begin(Some(now));
        self.asking.begin_again();
    }

    /// When the next of the others is to be asked.
    pub(super) fn question_due(&self) -> Duration {
        if self.is_seeking() { self.ways.due } else { Duration::MAX }
    }

    /// A question to one that is not in force: it changes nothing there.
    pub(super) fn question(&mut self, now: Duration) -> Option<Upward> {
        let (join, ways) = (self.join_request(), &mut self.ways);
        ways.due = now.saturating_add(BETWEEN);
        ways.asked = (ways.asked + 1) % ways.all.len();
        if ways.asked == ways.at {
            ways.asked = ways.next();
        }
        let way = &ways.all[ways.asked];
        Some(way.parent.asked(self.job, 0, Control { got: ASK, cookie: way.cookie, workers: 1, ..join }))
    }
}
