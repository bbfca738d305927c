//! Where each contribution went, by value: the payloads tell which ranks are in a sum, and how often.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pascaline_aggregator::{
    Aggregate, Burst, BurstSink, Cause, Contribution, Evicted, Gradient, Key, Rejection, Reminded, Request,
    Rules, Sink,
};
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, PacketBuf, SharedBuf};
use pascaline_wire::trailer::Trailer;

use crate::common::{OFFSET, Parcel, counts, full_signature, signature, values};
use crate::lcore::{LCORES, QUOTA, REGION, rules};

/// A packet on its way to a session.
pub(crate) type Offer = (Request, HeapBuf);

/// Where the contributions to one PSN went.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) fan_in: u16,
    /// How often each rank's contribution came in.
    pub(crate) offered: Vec<i32>,
    /// How often it left in another way than in a result: in a piece for the parameter server, given up,
    /// refused.
    pub(crate) gone: Vec<i32>,
    pub(crate) results: Vec<Vec<i32>>,
}

fn add(to: &mut Vec<i32>, more: &[i32]) {
    to.resize(to.len().max(more.len()), 0);
    to.iter_mut().zip(more).for_each(|(to, more)| *to += more);
}

impl Account {
    pub(crate) fn absorb(&mut self, other: Self) {
        self.fan_in = self.fan_in.max(other.fan_in);
        add(&mut self.offered, &other.offered);
        add(&mut self.gone, &other.gone);
        self.results.extend(other.results);
    }

    /// Each contribution is in exactly one place, and no result lacks a rank or has one twice.
    pub(crate) fn balance(&self, key: Key) {
        let mut left = self.gone.clone();
        left.resize(self.offered.len(), 0);
        for result in &self.results {
            let partial = key.job() == REGION && counts(result).all(|count| count <= 1);
            assert!(partial || *result == full_signature(self.fan_in), "{key:?}: {self:?}");
            add(&mut left, result);
        }
        assert_eq!(left, self.offered, "{key:?}: {self:?}");
    }
}

/// One lcore's sink.
#[derive(Debug)]
pub(crate) struct Books {
    memory: HeapPool,
    pub(crate) accounts: BTreeMap<u64, Account>,
    /// Requests brought in, and events of those that each request leads to one of.
    pub(crate) offered: usize,
    pub(crate) answered: usize,
    /// How often each kind of event came.
    pub(crate) seen: BTreeMap<&'static str, usize>,
    /// What ranks send again.
    pub(crate) again: Vec<Offer>,
    /// Results that are still on their way to the ranks, and what was in them.
    pub(crate) sent: Vec<(HeapShared, Vec<u8>)>,
    /// The requests of the burst that is coming.
    pub(crate) whole: Vec<Request>,
    /// What the packets of slots held that have come back since the last event.
    recycled: Vec<i32>,
    /// The generation of the table of jobs.
    pub(crate) epoch: u16,
    /// Partials of the job with a quota, at all lcores.
    open: Arc<AtomicUsize>,
}

impl Books {
    pub(crate) fn new(memory: &HeapPool, open: &Arc<AtomicUsize>) -> Self {
        Self {
            memory: memory.clone(),
            accounts: BTreeMap::new(),
            offered: 0,
            answered: 0,
            seen: BTreeMap::new(),
            again: Vec::new(),
            sent: Vec::new(),
            whole: Vec::new(),
            recycled: Vec::new(),
            epoch: 0,
            open: Arc::clone(open),
        }
    }

    pub(crate) fn note(&mut self, what: &'static str) {
        self.recycled.clear();
        *self.seen.entry(what).or_default() += 1;
    }

    fn answer(&mut self, what: &'static str) {
        self.answered += 1;
        self.note(what);
    }

    pub(crate) fn account(&mut self, key: Key) -> &mut Account {
        self.accounts.entry(key.to_bits()).or_default()
    }

    /// A rank has sent this, for the first time or again.
    pub(crate) fn comes(&mut self, request: &Request, packet: &HeapBuf) {
        add(&mut self.account(request.key).offered, &payload(request, packet));
    }

    /// This leaves, and is in no result.
    pub(crate) fn goes(&mut self, key: Key, values: &[i32]) {
        add(&mut self.account(key).gone, values);
    }

    /// The ranks inside send again, each for itself, as they do when no result comes.
    fn sent_again(&mut self, key: Key, values: &[i32], rules: Rules) {
        let fan_in = self.account(key).fan_in;
        for (rank, count) in (0..fan_in).zip(counts(values)) {
            for _ in 0..count {
                let parcel = Parcel::add(key, rank, fan_in, &signature(rank, fan_in))
                    .with(|r| (r.rules, r.again) = (rules, true));
                let packet = parcel.packet(&self.memory);
                self.comes(&parcel.request, &packet);
                self.again.push((parcel.request, packet));
            }
        }
    }

    /// A partial of the job with a quota of one was opened. Two lcores may both take the last slot.
    fn count_open(&mut self, key: Key) {
        if key.job() == QUOTA && self.open.fetch_add(1, Ordering::SeqCst) > 0 {
            self.note("over the quota");
            assert!(self.open.load(Ordering::SeqCst) <= LCORES);
        }
    }

    fn count_gone(&self, key: Key) {
        if key.job() == QUOTA {
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn result(&mut self, result: &Aggregate<'_, HeapShared>) {
        if result.partial {
            self.note("partial result");
        }
        self.account(result.key).results.push(sum_of(result));
        self.sent.push((result.payload.clone(), result.payload.bytes().to_vec()));
    }

    /// A cached result is the one that was made.
    fn same(&mut self, result: &Aggregate<'_, HeapShared>) {
        assert_eq!(self.account(result.key).results.last(), Some(&sum_of(result)));
    }
}

/// The values of a request's packet.
pub(crate) fn payload(request: &Request, packet: &HeapBuf) -> Vec<i32> {
    values(&packet.bytes()[usize::from(request.offset)..][..usize::from(request.len)])
}

/// The values of a result, which holds as many contributions as it says.
fn sum_of(result: &Aggregate<'_, HeapShared>) -> Vec<i32> {
    let bytes = result.payload.bytes();
    let split = result.partial.then(|| Trailer::split(bytes).expect("a trailer"));
    if let Some((_, trailer)) = &split {
        assert_eq!(trailer.bitmap.as_ref().expect("a bitmap").count(), result.count);
    }
    let values = values(split.map_or(bytes, |(payload, _)| payload));
    assert_eq!(counts(&values).sum::<i32>(), i32::from(result.count));
    values
}

impl Sink<HeapBuf> for Books {
    fn opened(&mut self, of: &Contribution) {
        self.count_open(of.key);
        self.answer("opened");
    }

    fn added(&mut self, _: &Contribution) {
        self.answer("added");
    }

    fn combined(&mut self, _: &Contribution) {
        self.answer("combined");
    }

    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, HeapShared>) {
        assert_eq!(of.key, result.key);
        if !alone {
            self.count_gone(of.key);
        }
        self.answer("completed");
        self.result(&result);
    }

    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, HeapShared>) {
        self.answer("replayed");
        self.same(&result);
        self.goes(request.key, &payload(request, &packet));
    }

    fn reminded(&mut self, _: &Request, _: HeapBuf, state: Reminded<'_, HeapShared, 1>) {
        self.answer(match &state {
            Reminded::Cached(_) => "reminded: cached",
            Reminded::Partial(_) | Reminded::Recently => "reminded: partial",
            Reminded::Unknown => "reminded: unknown",
        });
        if let Reminded::Cached(result) = state {
            self.same(&result);
        }
    }

    fn rejected(&mut self, request: &Request, packet: HeapBuf, why: Rejection) {
        self.answer(match why {
            Rejection::Conflict | Rejection::Quota | Rejection::Share => "no slot",
            Rejection::Contention => "full ring",
            Rejection::Stale => "stale",
            Rejection::Duplicate if request.inside != 0 => "combined duplicate",
            Rejection::Duplicate => "duplicate",
            other => panic!("{other:?}"),
        });
        let values = payload(request, &packet);
        match why {
            // Those beside the duplicate are lost with it, and their ranks send again.
            Rejection::Duplicate => {
                self.goes(request.key, &values);
                if request.inside != 0 {
                    self.sent_again(request.key, &values, request.rules);
                }
            }
            Rejection::Stale => self.goes(request.key, &values),
            // To the parameter server.
            _ if request.rules.server() => self.goes(request.key, &values),
            _ => self.again.push((*request, packet)),
        }
    }

    fn handed_off(&mut self) {
        self.note("handed off");
    }

    fn recycled(&mut self, packet: HeapBuf) {
        // Those that have been in a slot have no header.
        if packet.bytes().len() < usize::from(OFFSET) {
            add(&mut self.recycled, &values(packet.bytes()));
        }
    }

    fn released(&mut self, result: Aggregate<'_, HeapShared>) {
        self.note("released");
        self.result(&result);
    }

    fn evicted(&mut self, key: Key, what: Evicted<HeapBuf>, cause: Cause) {
        let lost = std::mem::take(&mut self.recycled);
        self.note(match cause {
            Cause::Preempted => "preempted",
            Cause::Share => "share",
            Cause::Swept => "swept",
            Cause::NoRoom(_) => "no room",
            _ => "evicted",
        });
        if !matches!(what, Evicted::Result) {
            self.count_gone(key);
        }
        match what {
            Evicted::Result => {}
            Evicted::GivenUp => {
                self.goes(key, &lost);
                if key.is_of(self.epoch) {
                    assert_ne!(cause, Cause::Swept, "{key:?} is not of the past");
                    self.sent_again(key, &lost, rules(key.job()));
                }
            }
            Evicted::Partial(partial) => {
                let (payload, trailer) = Trailer::split(partial.packet.bytes()).expect("a trailer");
                assert_eq!(trailer.bitmap.expect("a bitmap").count(), partial.count);
                self.goes(key, &values(payload));
            }
            Evicted::Originals(originals) => {
                let all: Vec<_> = originals.map(|(_, packet)| values(packet.bytes())).collect();
                all.iter().for_each(|values| self.goes(key, values));
            }
        }
    }
}

impl BurstSink<HeapBuf> for Books {
    const PAYLOAD_OFFSET: u16 = OFFSET;

    fn rules(&self, job: u16) -> Rules {
        rules(job)
    }

    fn priority(&self, packet: &HeapBuf) -> u16 {
        packet.bytes().first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
    }

    fn whole_request(&mut self, gradient: &Gradient, _: &HeapBuf, _: u64) -> Request {
        let of = |request: &&Request| (request.key, request.rank) == (gradient.key(), gradient.rank());
        *self.whole.iter().find(of).expect("it came in the burst")
    }

    fn worked_off(&mut self, _: &Burst<HeapBuf>, added: usize, _: u64) {
        self.answered += added;
    }
}
