//! Handling of received packets.

use core::time::Duration;

use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Flags, Header, Kind, round};

use super::Job;
use crate::action::Destination;
use crate::check;
use crate::config::Order;
use crate::counters::Counters;
use crate::entry::Content;
use crate::outcome::{Outcome, RejectReason, Rejection};
use pascaline_wire::RankSet;

impl Job {
    /// Handles a packet of this job whose payload is whole.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        header: &Header,
        payload: &[u8],
        bitmap: Option<&Bitmap>,
        counters: &mut Counters,
    ) -> Result<Outcome, Rejection> {
        self.begin(now, header.psn);
        self.cached.expire(now, self.config.age_limit);
        check::membership(&self.params, header)?;
        match header.kind {
            Kind::Gradient => {
                let ranks = check::gradient(header, bitmap)?;
                self.collect(now, header, payload, &ranks, counters)
            }
            Kind::Partial if self.params.order_of(header.element) == Order::Rank => {
                Err(RejectReason::OrderedPartial.into())
            }
            Kind::Partial => {
                let ranks = check::partial(header, bitmap)?;
                self.collect(now, header, payload, &ranks, counters)
            }
            Kind::Result => {
                let ranks = check::result(&self.params, header, bitmap)?;
                self.replace(now, header, payload, ranks, counters)
            }
            Kind::Reminder => self.remind(now, header, counters),
            Kind::Update | Kind::Ack | Kind::Fetch | Kind::Control => Err(RejectReason::Unexpected.into()),
        }
    }

    /// A contribution or a partial.
    fn collect(
        &mut self,
        now: Duration,
        header: &Header,
        payload: &[u8],
        ranks: &RankSet,
        counters: &mut Counters,
    ) -> Result<Outcome, Rejection> {
        let combiner = check::elements(&self.params, &self.kernels, header.element, payload)?;
        let psn = header.psn;
        if let Some(finished) = self.cached.get(psn) {
            finished.content.check(header, payload)?;
            self.answer_late(now, header, counters);
            return Ok(Outcome::Late);
        }
        if header.kind == Kind::Partial && ranks.len() >= self.params.needed() {
            return self.conclude(now, header, payload, *ranks, counters);
        }
        self.note_promise(header, counters);
        let entry = self.entries.get(&psn);
        match entry.and_then(|entry| entry.content.as_ref()) {
            Some(content) => {
                content.check(header, payload)?;
                if content.ranks.overlaps(ranks) {
                    // It may have been the last promise.
                    self.finish_if_complete(now, psn, &combiner, counters);
                    return self.overlap(now, header, ranks);
                }
            }
            None => {
                if entry.is_none() {
                    self.room_for_entry(psn, counters)?;
                }
                let more = self.params.entry_bytes(header.element, payload.len());
                self.make_room(psn, 0, more, counters)?;
            }
        }
        let known = self.cached.knows(psn);
        let content = || Content::new(&self.params, header, *ranks, payload, known);
        match self.entries.get_mut(&psn) {
            None => {
                let content = content();
                self.open_entry(now, header, Some(content), counters);
            }
            Some(entry) => {
                // The time between contributions that lose their conflicts does not measure how long a
                // partial waits for the other.
                entry.helped |= header.kind == Kind::Gradient || entry.asked.is_some();
                match &mut entry.content {
                    Some(there) => {
                        let order = self.params.order_of(header.element);
                        there.add(order, header, ranks, payload, &combiner, known);
                    }
                    none => self.entry_bytes += none.insert(content()).bytes.len(),
                }
            }
        }
        self.finish_if_complete(now, psn, &combiner, counters);
        Ok(if header.kind == Kind::Partial { Outcome::Merged } else { Outcome::Added })
    }

    /// A rank that was asked under a vote, and answers with its original, has promised to wait for the vote's
    /// result.
    fn note_promise(&mut self, header: &Header, counters: &mut Counters) {
        if !header.flags.has(Flags::BYPASS) {
            return;
        }
        let vote = self.entries.get_mut(&header.psn).and_then(|entry| entry.vote.as_mut());
        let vote = vote.filter(|vote| header.own.round() == vote.round);
        if vote.is_some_and(|vote| vote.promised.insert(header.rank)) {
            counters.promises += 1;
        }
        self.answered(header.psn);
    }

    /// A part of the packet is there already. A sum cannot be split: the new ranks of a partial are lost, and
    /// their originals have to be requested.
    fn overlap(&mut self, now: Duration, header: &Header, ranks: &RankSet) -> Result<Outcome, Rejection> {
        if header.kind != Kind::Partial {
            return Ok(Outcome::Duplicate);
        }
        if self.entries.get(&header.psn).is_some_and(|entry| !entry.ranks().includes(ranks)) {
            self.make_due(now, header.psn);
        }
        Err(RejectReason::Overlap.into())
    }

    /// A result from elsewhere: the appliance had it, or a rank kept it. Other ranks may have it already, so
    /// it replaces the entry's content, whose sum could differ from it in the last bits.
    fn replace(
        &mut self,
        now: Duration,
        header: &Header,
        payload: &[u8],
        ranks: RankSet,
        counters: &mut Counters,
    ) -> Result<Outcome, Rejection> {
        check::elements(&self.params, &self.kernels, header.element, payload)?;
        let psn = header.psn;
        if let Some(finished) = self.cached.get(psn) {
            finished.content.check(header, payload)?;
            return Ok(Outcome::Duplicate);
        }
        if !self.entries.contains_key(&psn) {
            return Err(RejectReason::Unasked.into());
        }
        self.conclude(now, header, payload, ranks, counters)
    }

    /// Takes a whole sum in place of the entry's content, if any. A partial that contains enough is one: the
    /// appliance sends it here, and not to the ranks, when part of it was sent again, since there may be a
    /// result already. A sum that a rank has taken is the result, and so is the appliance's sum of first
    /// sendings, unless the ranks have to be asked.
    fn conclude(
        &mut self,
        now: Duration,
        header: &Header,
        payload: &[u8],
        ranks: RankSet,
        counters: &mut Counters,
    ) -> Result<Outcome, Rejection> {
        let combiner = check::elements(&self.params, &self.kernels, header.element, payload)?;
        let psn = header.psn;
        let freed = match self.entries.get(&psn).and_then(|entry| entry.content.as_ref()) {
            Some(content) => {
                content.check(header, payload)?;
                content.bytes.len()
            }
            None => 0,
        };
        let partial = header.kind == Kind::Partial;
        let taken = !partial && header.own.round() == round::TAKEN;
        let content = Content::whole(header, ranks, payload, self.cached.knows(psn));
        if taken || self.is_certain(&content) {
            self.make_room(psn, freed, payload.len(), counters)?;
            let entry = self.close_entry(psn);
            counters.opened += u64::from(entry.is_none());
            let vote = entry.and_then(|entry| entry.vote);
            let round = if taken { round::TAKEN } else { self.round_of(&content, vote.as_deref()) };
            self.publish(now, psn, content, round, counters);
        } else {
            if !self.entries.contains_key(&psn) {
                self.room_for_entry(psn, counters)?;
            }
            self.make_room(psn, freed, payload.len(), counters)?;
            match self.entries.get_mut(&psn) {
                None => self.open_entry(now, header, Some(content), counters),
                Some(entry) => {
                    self.entry_bytes = self.entry_bytes - freed + content.bytes.len();
                    entry.content = Some(content);
                }
            }
            self.finish_if_complete(now, psn, &combiner, counters);
        }
        Ok(if partial { Outcome::Merged } else { Outcome::Completed })
    }

    /// A rank misses the result (DSA, section IV.B).
    fn remind(
        &mut self,
        now: Duration,
        header: &Header,
        counters: &mut Counters,
    ) -> Result<Outcome, Rejection> {
        if header.flags.has(Flags::BYPASS) {
            // The server's own: an answer to it would come back in turn.
            return Err(RejectReason::Unexpected.into());
        }
        let psn = header.psn;
        if let Some(finished) = self.cached.get(psn) {
            if round::admits(header.own.round(), finished.round) {
                self.answer_late(now, header, counters);
            } else {
                self.request_promise(now, header, counters);
            }
            return Ok(Outcome::Late);
        }
        if !self.entries.contains_key(&psn) {
            self.room_for_entry(psn, counters)?;
            self.open_entry(now, header, None, counters);
        }
        self.make_due(now, psn);
        Ok(Outcome::Reminded)
    }

    /// A rank lacks the result, and waits for another round than that of the result: of a vote that failed,
    /// of another life of the server, or with a number that was damaged on its way. It is asked to promise
    /// this one. Sending it the result as if it had been taken would be wrong: that could still arrive once
    /// the result is forgotten here and the ranks vote on another.
    fn request_promise(&mut self, now: Duration, header: &Header, counters: &mut Counters) {
        let (psn, rank) = (header.psn, Destination::Rank(header.rank));
        if !self.cached.admit_answer(now, psn, false, self.params.fan_in, self.config.floor) {
            counters.answers_limited += 1;
            return;
        }
        if self.cached.get(psn).is_some_and(|finished| finished.round == round::NONE) {
            let round = self.number_round();
            self.cached.number(psn, round);
        }
        self.reply(psn, rank, true, counters);
    }

    /// Answers a packet for a complete PSN with the result: to its rank, or to all if it is a partial, whose
    /// ranks probably all lack it.
    fn answer_late(&mut self, now: Duration, header: &Header, counters: &mut Counters) {
        let (psn, interval) = (header.psn, self.config.floor);
        let (to, admitted) = if header.kind == Kind::Partial {
            (Destination::Appliance, self.cached.admit_all(now, psn, interval))
        } else {
            let contribution = header.kind == Kind::Gradient;
            let most = self.params.fan_in;
            let admitted = self.cached.admit_answer(now, psn, contribution, most, interval);
            (Destination::Rank(header.rank), admitted)
        };
        if admitted {
            self.reply(psn, to, false, counters);
        } else {
            counters.answers_limited += 1;
        }
    }
}
