//! The appliances that a job's sums may go to: one is in force, and the others are asked after while one is
//! sought.
//!
//! All ranks of a parent have to come to the same one. So they go by what they hear: to one whose job is
//! complete, since its generation is under way; else to the first of the list that answers. And they leave
//! one that is silent while they have something to ask.

use core::time::Duration;

use pascaline_wire::control::{ASK, Action, Control, Status};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Element, Header, Kind};

use super::next_hop::{HopStatus, NextHop};
use super::{News, Parent, QUESTION, State, Uplink, Upward};
use crate::membership::job::source;

/// A parent that is silent for so long while there is something to ask is left for another one.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// For so long one that had the job, or has it, is not left for an earlier one that answers: the others may
/// come to it.
const HOLD: Duration = Duration::from_secs(2);
/// Between two questions to those that are not in force, each in its turn.
const BETWEEN: Duration = Duration::from_millis(100);
/// What was heard longer ago says nothing of now.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Way {
    pub(super) parent: Parent,
    pub(super) hop: Option<NextHop>,
    cookie: u64,
    /// Its latest answer, while it is not in force.
    heard: Option<Duration>,
    /// By that, all ranks of its job have joined: it knows an earlier life of this appliance.
    whole: bool,
    /// By that, other ranks wait there.
    waits: bool,
}

impl Way {
    /// What was heard of it says something of now.
    fn is_fresh(&self, now: Duration) -> bool {
        self.heard.is_some_and(|heard| now.saturating_sub(heard) < FRESH)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Ways {
    pub(super) all: Vec<Way>,
    at: usize,
    /// Until then an earlier one that answers is no reason to go there.
    held: Duration,
    /// How often a MAC has been asked for.
    pub(super) questions: u64,
    /// Which is to be asked next, and when.
    asked: usize,
    due: Duration,
}

impl Ways {
    /// At least one, the first in force.
    pub(super) fn new(first: Parent, others: &[Parent]) -> Self {
        let way = |&parent: &Parent| {
            let hop = parent.next_hop.map(NextHop::new);
            Way { parent, hop, cookie: 0, heard: None, whole: false, waits: false }
        };
        let all = core::iter::once(&first).chain(others).map(way).collect();
        Self { all, at: 0, held: Duration::ZERO, questions: 0, asked: 0, due: Duration::ZERO }
    }

    pub(super) fn in_force(&self) -> &Parent {
        &self.all[self.at].parent
    }

    pub(super) const fn place(&self) -> usize {
        self.at
    }

    pub(super) fn hops_due(&self) -> Option<Duration> {
        self.all.iter().filter_map(|way| way.hop.as_ref()?.due()).min()
    }

    /// How it stands with whoever packets to the one in force go to.
    pub(super) fn hop(&self, now: Duration) -> Option<HopStatus> {
        Some(self.all[self.at].hop.as_ref()?.status(now))
    }

    fn find(&self, sender: (Address, u16)) -> Option<usize> {
        self.all.iter().position(|way| source(&way.parent.endpoint) == sender)
    }

    pub(super) const fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Where to go rather than to the one in force, if that is `silent` or not.
    fn better(&self, now: Duration, silent: bool) -> Option<usize> {
        let whole = self.all.iter().position(|way| way.is_fresh(now) && way.whole);
        let first = self.all.iter().position(|way| way.is_fresh(now));
        match () {
            () if silent => Some(whole.or(first).unwrap_or_else(|| self.next())),
            () if now < self.held => None,
            () => whole.or_else(|| first.filter(|&first| first < self.at)),
        }
    }

    /// An earlier one, where others wait for this appliance: they have come to different ones.
    fn divided(&self, now: Duration) -> Option<usize> {
        self.all[..self.at].iter().position(|way| way.is_fresh(now) && way.whole && way.waits)
    }

    /// This appliance has been taken in, or has left in good order, and may go elsewhere.
    pub(super) const fn hold(&mut self, taken: bool) {
        self.held = if taken { Duration::MAX } else { Duration::ZERO };
    }

    /// It is to be taken in anew.
    pub(super) fn begin(&mut self, now: Duration) {
        self.held = self.held.min(now.saturating_add(HOLD));
    }

    const fn next(&self) -> usize {
        (self.at + 1) % self.all.len()
    }

    /// The one that is to be asked after now, if there is one.
    fn take_next(&mut self, now: Duration) -> Option<&Way> {
        if self.due > now {
            return None;
        }
        self.due = now.saturating_add(BETWEEN);
        self.asked = (self.asked + 1) % self.all.len();
        if self.asked == self.at {
            self.asked = self.next();
        }
        self.all.get(self.asked)
    }
}

impl Uplink {
    /// By what the parent knows this appliance.
    pub(in crate::membership) const fn session(&self) -> u64 {
        self.session
    }

    /// The parents that may be in force, as senders of answers.
    pub(in crate::membership) fn senders(&self) -> impl Iterator<Item = (Address, u16)> {
        self.ways.all.iter().map(|way| source(&way.parent.endpoint))
    }

    /// True if the one in force is one of these.
    pub(in crate::membership) fn stays_with(&self, first: &Parent, others: &[Parent]) -> bool {
        core::iter::once(first).chain(others).any(|parent| *parent == self.parent().written())
    }

    /// Other parents than before, the one in force among them.
    pub(in crate::membership) fn replace(&mut self, first: Parent, others: &[Parent]) {
        let in_force = self.parent().written();
        let at = core::iter::once(&first).chain(others).position(|parent| *parent == in_force);
        let Ways { all, .. } = Ways::new(first, others);
        let mut old = core::mem::replace(&mut self.ways.all, all);
        self.ways.at = at.unwrap_or(0);
        for way in &mut self.ways.all {
            // What is known of those that stay, and their MACs.
            if let Some(at) = old.iter().position(|old| old.parent.written() == way.parent) {
                *way = old.swap_remove(at);
            }
        }
    }

    /// An answer of one that is not in force. True if it is one.
    pub(in crate::membership) fn overheard(
        &mut self,
        now: Duration,
        sender: (Address, u16),
        ack: &Control,
    ) -> bool {
        let other = self.ways.find(sender).filter(|&other| other != self.ways.at);
        let Some(way) = other.and_then(|other| self.ways.all.get_mut(other)) else { return false };
        if ack.session == self.session && ack.answers == Some(Action::Join) {
            (way.heard, way.cookie) = (Some(now), ack.cookie);
            let tells = ack.status == Status::Pending && ack.window > 0;
            (way.whole, way.waits) = (tells && ack.expected > 0, tells && ack.expected > 1);
        }
        true
    }

    /// True while a parent is sought: none has taken it in, and there is something to ask; or nothing gets on
    /// at one that is not the first.
    fn is_seeking(&self) -> bool {
        let asks = match self.state {
            State::Joining(_) => true,
            State::Idle => self.known.is_none(),
            State::Member(_) => self.stuck && self.ways.at > 0,
            State::Leaving { .. } | State::Resetting { .. } => false,
        };
        asks && self.ways.are_several()
    }

    /// For how long the parent in force has been asked without an answer, if it still is.
    pub(super) fn unanswered(&self, now: Duration) -> Duration {
        let asks = self.sent.is_some_and(|sent| now.saturating_sub(sent) < PATIENCE);
        self.asking.filter(|_| asks).map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Goes to another parent where that is better, or the present one is silent.
    pub(in crate::membership) fn look_round(&mut self, now: Duration) -> News {
        if !self.ways.are_several() {
            return News::Nothing;
        }
        let silent = self.unanswered(now) >= PATIENCE;
        match self.state {
            // Those who have left are needed again: only they may have what the other ranks lack.
            State::Member(_) | State::Leaving { .. } if silent => {
                self.turn(now, self.ways.next());
                self.over()
            }
            State::Resetting { next, .. } if silent => {
                self.turn(now, self.ways.next());
                self.go_on(now, next);
                News::Turned
            }
            State::Member(_) => {
                self.stuck &= self.waited.is_some_and(|waited| waited.is_fresh(now));
                let Some(to) = self.ways.divided(now).filter(|_| self.stuck) else { return News::Nothing };
                self.turn(now, to);
                self.over()
            }
            _ if self.is_seeking() => match self.ways.better(now, silent) {
                Some(to) => {
                    self.turn(now, to);
                    News::Turned
                }
                None => News::Nothing,
            },
            _ => News::Nothing,
        }
    }

    /// Has another parent in force, and asks it what it would have asked this one.
    fn turn(&mut self, now: Duration, to: usize) {
        self.ways.at = to;
        let Some(way) = self.ways.all.get_mut(to) else { return };
        if let Some(hop) = &mut way.hop {
            hop.doubt(now);
        }
        self.cookie = way.cookie;
        self.ways.held = if way.whole { now.saturating_add(HOLD) } else { Duration::ZERO };
        // What it says from now on is no longer overheard.
        (way.heard, way.whole, way.waits) = (None, false, false);
        (self.told, self.outdated, self.refused, self.halted) = (None, self.number, None, false);
        (self.silent, self.asking, self.joined) = (Some(now), None, 0);
        self.at_once(now);
    }

    /// When the next of the others is to be asked; `None` for never.
    pub(super) fn question_due(&self) -> Option<Duration> {
        self.is_seeking().then_some(self.ways.due)
    }

    /// A question to one that is not in force, if it is time: it changes nothing there.
    pub(super) fn question(&mut self, now: Duration) -> Option<Upward> {
        if !self.is_seeking() {
            return None;
        }
        let (payload, window) = (self.payload.max(QUESTION), self.window.max(1));
        let request = Control { got: ASK, payload, window, ..Control::request(Action::Join, self.session) };
        let number = self.number;
        let way = self.ways.take_next(now)?;
        let control = Control { number, cookie: way.cookie, workers: 1, ..request };
        let header = Header::about(Kind::Control, Element::F32_SUM, self.job, 0);
        Some(way.parent.asked(header, control))
    }
}
