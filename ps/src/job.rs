//! One job: its incomplete entries, its cached results, and the packets to send for them.

use core::ops::Bound::{Included, Unbounded};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pascaline_buffer::combine::Kernels;
use pascaline_wire::{Header, control, round};

use crate::action::Destination;
use crate::cached::CachedResults;
use crate::combine::Combiner;
use crate::config::{Config, JobParams};
use crate::counters::Counters;
use crate::entry::{Content, Entry, Vote};
use crate::outcome::{RejectReason, Rejection};
use crate::timeout::Estimator;

mod ask;
mod receive;
mod send;

pub(crate) use send::Packet;

/// Results waiting to be fetched by the driver. It does so after every packet; this only bounds the memory if
/// one does not.
const REPLIES: usize = 1024;

/// Rounds of asking after which an entry gives way to a later PSN.
const PATIENCE: u32 = 4;
/// Entries that are checked for that.
const LOOKED_AT: usize = 16;

/// A result to be sent, or a rank to be asked to promise its round.
#[derive(Debug, Clone, Copy)]
struct Reply {
    psn: u32,
    to: Destination,
    asks: bool,
}

#[derive(Debug)]
pub(crate) struct Job {
    id: u16,
    params: JobParams,
    config: Config,
    kernels: Kernels,
    /// The incomplete PSNs, in an order in which the latest of them is found.
    entries: BTreeMap<u32, Entry>,
    /// The entries by the time of their next timer.
    timers: BTreeSet<(Duration, u32)>,
    /// The entries with a round of asking in progress, by ticket: they take turns.
    asking: BTreeMap<u64, u32>,
    next_ticket: u64,
    cached: CachedResults,
    replies: VecDeque<Reply>,
    /// A rejection to send, and the time of the last one.
    rejection: Option<Header>,
    /// Its body.
    body: [u8; control::LEN],
    rejected_at: Option<Duration>,
    estimator: Estimator,
    /// Payload bytes of the entries.
    entry_bytes: usize,
    /// The server has seen the generation from its beginning.
    witnessed: bool,
    /// When the first packet came.
    began: Option<Duration>,
    /// The next vote's number.
    next_round: u16,
    /// The job's time in the server's agenda.
    pub(crate) on_agenda: Option<Duration>,
    /// Whether the job is in the server's queue of those that may have something to send.
    pub(crate) ready: bool,
}

impl Job {
    pub(crate) fn new(id: u16, params: JobParams, witnessed: bool, config: Config, kernels: Kernels) -> Self {
        Self {
            id,
            params,
            config,
            kernels,
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            asking: BTreeMap::new(),
            next_ticket: 0,
            cached: CachedResults::default(),
            replies: VecDeque::new(),
            rejection: None,
            body: [0; control::LEN],
            rejected_at: None,
            estimator: Estimator::new(&config),
            entry_bytes: 0,
            witnessed,
            began: None,
            next_round: round::FIRST,
            on_agenda: None,
            ready: false,
        }
    }

    pub(crate) const fn params(&self) -> &JobParams {
        &self.params
    }

    /// Incomplete entries.
    pub(crate) fn open(&self) -> usize {
        self.entries.len()
    }

    /// Cached results.
    pub(crate) fn cached(&self) -> usize {
        self.cached.len()
    }

    /// Payload bytes of entries and cached results.
    pub(crate) fn bytes(&self) -> usize {
        self.entry_bytes + self.cached.bytes()
    }

    /// The first timeout of an entry opened now.
    pub(crate) fn timeout(&self) -> Duration {
        self.estimator.timeout(0)
    }

    /// Makes room for `more` payload bytes of this PSN beside all entries less `freed` bytes, if necessary by
    /// forgetting cached results, and by giving up later PSNs.
    fn make_room(
        &mut self,
        psn: u32,
        freed: usize,
        more: usize,
        counters: &mut Counters,
    ) -> Result<(), Rejection> {
        loop {
            let wanted = (self.entry_bytes - freed).saturating_add(more);
            if wanted <= self.params.capacity.bytes {
                while wanted + self.cached.bytes() > self.params.capacity.bytes {
                    self.cached.forget_oldest();
                }
                return Ok(());
            }
            self.give_way(psn, counters)?;
        }
    }

    /// Makes room for one more entry, for this PSN.
    fn room_for_entry(&mut self, psn: u32, counters: &mut Counters) -> Result<(), Rejection> {
        while self.entries.len() >= self.params.capacity.entries as usize {
            self.give_way(psn, counters)?;
        }
        Ok(())
    }

    /// Gives up the entry of the latest PSN, if it is later than this one.
    ///
    /// A rank that lacks an early result sends nothing much later (the spread rule), so the entries of later
    /// PSNs may be incomplete because the result that finds no room is missing. Their contributions will be
    /// sent again.
    fn give_way(&mut self, psn: u32, counters: &mut Counters) -> Result<(), Rejection> {
        const HALF: u32 = 1 << 31;
        // PSNs are serial numbers: the half of them that comes after this one may wrap.
        let (first, last) = (psn.wrapping_add(1), psn.wrapping_add(HALF - 1));
        let latest = |range| self.entries.range::<u32, _>(range).next_back().map(|(&psn, _)| psn);
        let latest = if first <= last {
            latest((Included(first), Included(last)))
        } else {
            latest((Unbounded, Included(last))).or_else(|| latest((Included(first), Unbounded)))
        };
        self.close_entry(latest.or_else(|| self.find_abandoned(psn)).ok_or(RejectReason::Full)?);
        counters.given_up += 1;
        Ok(())
    }

    /// Among the earliest entries, if they are earlier than this PSN, the one that has been asked for most
    /// often, and often enough. A late duplicate of a PSN that was completed long ago, and whose result no
    /// rank keeps any more, opens one that nothing completes; until their age limit, a few of them would keep
    /// out PSNs that ranks wait for. If ranks wait for this one, they will send again.
    fn find_abandoned(&self, psn: u32) -> Option<u32> {
        let (first, last) = (psn.wrapping_sub((1 << 31) - 1), psn.wrapping_sub(1));
        let wraps = first > last;
        let high = self.entries.range(first..=if wraps { u32::MAX } else { last });
        let low = wraps.then(|| self.entries.range(..=last)).into_iter().flatten();
        let earliest = high.chain(low).take(LOOKED_AT).filter(|(_, entry)| entry.tries >= PATIENCE);
        earliest.max_by_key(|(_, entry)| entry.tries).map(|(&psn, _)| psn)
    }

    /// Opens an entry; there must be room for it.
    fn open_entry(
        &mut self,
        now: Duration,
        header: &Header,
        content: Option<Content>,
        counters: &mut Counters,
    ) {
        let psn = header.psn;
        let wake =
            now.saturating_add(self.estimator.timeout(0)).min(now.saturating_add(self.config.age_limit));
        self.entry_bytes += content.as_ref().map_or(0, |content| content.bytes.len());
        let helped = content.is_none();
        let entry =
            Entry { content, opened: now, wake, asked: None, tries: 0, ask: None, vote: None, helped };
        self.timers.insert((wake, psn));
        self.entries.insert(psn, entry);
        counters.opened += 1;
    }

    /// Takes an entry out, with its timer and its round of asking.
    fn close_entry(&mut self, psn: u32) -> Option<Entry> {
        let entry = self.entries.remove(&psn)?;
        self.timers.remove(&(entry.wake, psn));
        if let Some(ask) = &entry.ask {
            self.asking.remove(&ask.ticket);
        }
        self.entry_bytes -= entry.content.as_ref().map_or(0, |content| content.bytes.len());
        Some(entry)
    }

    /// Finishes an entry if it has collected enough.
    fn finish_if_complete(&mut self, now: Duration, psn: u32, combiner: &Combiner, counters: &mut Counters) {
        let needed = self.params.needed();
        let Some(entry) = self.entries.get(&psn) else { return };
        let complete = entry.content.as_ref().filter(|content| content.ranks.len() >= needed);
        let Some(content) = complete else { return };
        let agreed = entry.vote.as_ref().filter(|vote| vote.promised.len() >= needed);
        let round = match agreed {
            _ if self.is_certain(content) => self.round_of(content, entry.vote.as_deref()),
            Some(vote) => vote.round,
            None if entry.vote.is_some() => return,
            None => return self.begin_asking(now, psn),
        };
        let Some(entry) = self.close_entry(psn) else { return };
        if !entry.helped {
            self.estimator.on_sample(now.saturating_sub(entry.opened));
        }
        if let Some(mut content) = entry.content {
            content.seal(self.params.order_of(content.element), combiner);
            self.publish(now, psn, content, round, counters);
        }
    }

    /// True if there can be no other sum of a PSN with other bits than this one. If no packet is duplicated
    /// on its way, each contribution that was sent for the first time is in one sum only. So no other sum
    /// consists of such contributions only, if this one contains any. All other sums are made here: there was
    /// none when the contribution came, and there is none while the entry is open.
    const fn is_certain(&self, content: &Content) -> bool {
        !self.params.depends_on_arrival(content.element) || content.fresh
    }

    /// The round of a sum that is certain; it is valid for ranks that have promised to wait for another.
    fn round_of(&self, content: &Content, vote: Option<&Vote>) -> u16 {
        if self.params.depends_on_arrival(content.element) {
            vote.map_or(round::NONE, |vote| vote.round)
        } else {
            round::TAKEN
        }
    }

    /// Notes the time of the first packet, and which results may have been sent before. Rounds are numbered
    /// from an arbitrary number on: another life of the server should not use the same ones.
    fn begin(&mut self, now: Duration, psn: u32) {
        if self.began.is_none() {
            let (secs, nanos) = (now.as_secs(), u64::from(now.subsec_nanos()));
            let mixed =
                (secs ^ nanos << 20 ^ u64::from(self.params.epoch) << 50).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.next_round = u16::try_from(mixed >> 49).unwrap_or(0).max(round::FIRST);
            self.began = Some(now);
        }
        if !self.witnessed && self.began.is_some_and(|began| now < began.saturating_add(self.config.settle)) {
            self.cached.doubt(psn.wrapping_add(self.config.ahead));
        }
    }

    /// The number of a new vote.
    const fn number_round(&mut self) -> u16 {
        let round = self.next_round;
        self.next_round = if round >= round::LAST { round::FIRST } else { round + 1 };
        round
    }

    /// Keeps a result and queues it for all ranks.
    fn publish(&mut self, now: Duration, psn: u32, content: Content, round: u16, counters: &mut Counters) {
        self.cached.keep(now, psn, content, round, self.config.cached);
        counters.finished += 1;
        counters.voted += u64::from(!matches!(round, round::NONE | round::TAKEN));
        self.reply(psn, Destination::Appliance, false, counters);
    }

    fn reply(&mut self, psn: u32, to: Destination, asks: bool, counters: &mut Counters) {
        if self.replies.len() < REPLIES {
            self.replies.push_back(Reply { psn, to, asks });
        } else {
            counters.results_lost += 1;
        }
    }
}
