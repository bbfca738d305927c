//! What the tests share: packets whose sums tell what is inside, and a sink that writes everything down.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod trace;

use std::time::Duration;

use pascaline_aggregator::{
    Aggregate, BURST, Burst, BurstSink, Cause, Contribution, Evicted, Gradient, Key, Policy, Pool,
    PoolConfig, RankSet, Region, Rejection, Reminded, Request, Rules, Session, Sink, SweepAction, Terms,
    Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, PacketBuf, SharedBuf};
use pascaline_wire::Element;
use pascaline_wire::trailer::{Bitmap, Trailer};

/// Room behind a packet's bytes, for a trailer.
const ROOM: usize = 160;
/// Where a payload begins, where nothing else is said.
pub(crate) const OFFSET: u16 = 64;

/// What the pool's times are multiples of, as far as it matters.
pub(crate) const TICK: u64 = 1024;

/// Whose request an event answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) key: Key,
    pub(crate) rank: u16,
}

/// An aggregate by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) key: Key,
    pub(crate) element: u8,
    pub(crate) fan_in: u16,
    pub(crate) count: u16,
    pub(crate) overflow: bool,
    pub(crate) first: u64,
    /// The ranks inside, where not all are.
    pub(crate) inside: Option<Vec<u16>>,
    pub(crate) values: Vec<i32>,
}

/// The answer to a reminder, by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    Cached(Sum),
    Partial(Vec<u16>),
    Recently,
    Unknown,
}

/// One call of a sink, by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Opened(Who),
    Added(Who),
    /// `alone`: the contribution also opened the slot.
    Completed {
        who: Who,
        alone: bool,
        sum: Sum,
    },
    Replayed(Who, Sum),
    Installed {
        who: Who,
        sum: Sum,
    },
    /// A kept result was given out and not kept.
    PassedOn {
        who: Who,
        sum: Sum,
    },
    Reminded(Who, Known),
    Rejected(Who, Rejection),
    /// The result, if that is what there was.
    Fetched(Who, Option<Sum>),
    Obeyed(Who),
    HandedOff,
    Released(Sum),
    EvictedResult(Key),
    /// A partial that nobody wanted.
    EvictedPartial(Key),
    /// A partial for the parameter server.
    Evicted {
        cause: Cause,
        ranks: Vec<u16>,
        priority: u16,
        sum: Sum,
    },
    /// Contributions for the parameter server, by rank.
    Originals {
        key: Key,
        cause: Cause,
        overflow: bool,
        priority: u16,
        values: Vec<(u16, Vec<i32>)>,
    },
}

impl Event {
    /// True for the one event that every request gets.
    pub(crate) fn answers_a_request(&self) -> bool {
        !matches!(
            self,
            Self::HandedOff
                | Self::Released(_)
                | Self::EvictedResult(_)
                | Self::EvictedPartial(_)
                | Self::Evicted { .. }
                | Self::Originals { .. }
        )
    }
}

/// Writes down what a pool says, and keeps what it hands out.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) events: Vec<Event>,
    /// Packets that came back from the pool.
    pub(crate) returned: Vec<HeapBuf>,
    /// Payloads of results, replays and installed results.
    pub(crate) payloads: Vec<HeapShared>,
    /// And their rounds.
    pub(crate) rounds: Vec<u16>,
    /// Of each partial for the parameter server: whether a retransmission opened it.
    pub(crate) again: Vec<bool>,
    /// The requests of the gradients that come in bursts.
    pub(crate) whole: Vec<Request>,
    /// Gradients of bursts that were added without an event.
    pub(crate) silent: usize,
}

impl<const WORDS: usize> BurstSink<HeapBuf, WORDS> for Recorder {
    const PAYLOAD_OFFSET: u16 = OFFSET;

    fn rules(&self, job: u16) -> Rules {
        self.rules_of(job)
    }

    fn priority(&self, packet: &HeapBuf) -> u16 {
        priority_of(packet)
    }

    fn whole_request(&mut self, gradient: &Gradient, packet: &HeapBuf, now: u64) -> Request {
        self.whole_of(gradient, packet, now)
    }

    fn worked_off(&mut self, _: &Burst<HeapBuf>, added: usize, _: u64) {
        self.silent += added;
    }
}

/// A packet says how important it is where its header begins.
fn priority_of(packet: &HeapBuf) -> u16 {
    packet.bytes().first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

impl Recorder {
    fn rules_of(&self, job: u16) -> Rules {
        let of_job = |request: &&Request| request.key.job() == job;
        self.whole.iter().find(of_job).map(|request| request.rules).unwrap_or_default()
    }

    fn whole_of(&self, gradient: &Gradient, packet: &HeapBuf, now: u64) -> Request {
        let wanted = |request: &&Request| {
            (request.key, request.rank) == (gradient.key(), gradient.rank())
                && request.len == gradient.shape().payload_len()
                && request.priority == priority_of(packet)
                && request.now == now
        };
        *self.whole.iter().find(wanted).expect("it has been brought in")
    }

    /// The events since the last call; packets and payloads that came with them are let go.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.returned.clear();
        self.payloads.clear();
        self.rounds.clear();
        self.again.clear();
        std::mem::take(&mut self.events)
    }

    fn sum(&mut self, aggregate: Aggregate<'_, HeapShared>) -> Sum {
        let Aggregate { key, element, fan_in, count, overflow, partial, first, round, payload } = aggregate;
        let (bytes, inside) = if partial { inside(payload.bytes()) } else { (payload.bytes(), None) };
        let values = values(bytes);
        self.payloads.push(payload.clone());
        self.rounds.push(round);
        Sum { key, element, fan_in, count, overflow, first, inside, values }
    }
}

fn contributed(of: &Contribution) -> Who {
    Who { key: of.key, rank: of.rank }
}

fn who(request: &Request) -> Who {
    Who { key: request.key, rank: request.rank }
}

impl<const WORDS: usize> Sink<HeapBuf, WORDS> for Recorder {
    fn opened(&mut self, of: &Contribution) {
        self.events.push(Event::Opened(contributed(of)));
    }

    fn added(&mut self, of: &Contribution) {
        self.events.push(Event::Added(contributed(of)));
    }

    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, HeapShared>) {
        let sum = self.sum(result);
        self.events.push(Event::Completed { who: contributed(of), alone, sum });
    }

    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, HeapShared>) {
        self.returned.push(packet);
        let sum = self.sum(result);
        self.events.push(Event::Replayed(who(request), sum));
    }

    fn installed(&mut self, request: &Request, result: Aggregate<'_, HeapShared>) {
        let sum = self.sum(result);
        self.events.push(Event::Installed { who: who(request), sum });
    }

    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, HeapShared>) {
        let sum = self.sum(result);
        self.events.push(Event::PassedOn { who: who(request), sum });
    }

    fn reminded(&mut self, request: &Request, packet: HeapBuf, state: Reminded<'_, HeapShared, WORDS>) {
        self.returned.push(packet);
        let known = match state {
            Reminded::Cached(result) => Known::Cached(self.sum(result)),
            Reminded::Partial(ranks) => {
                Known::Partial((0..RankSet::<WORDS>::CAPACITY).filter(|&rank| ranks.contains(rank)).collect())
            }
            Reminded::Recently => Known::Recently,
            Reminded::Unknown => Known::Unknown,
        };
        self.events.push(Event::Reminded(who(request), known));
    }

    fn rejected(&mut self, request: &Request, packet: HeapBuf, why: Rejection) {
        self.returned.push(packet);
        self.events.push(Event::Rejected(who(request), why));
    }

    fn handed_off(&mut self) {
        self.events.push(Event::HandedOff);
    }

    fn recycled(&mut self, packet: HeapBuf) {
        self.returned.push(packet);
    }

    fn released(&mut self, result: Aggregate<'_, HeapShared>) {
        let sum = self.sum(result);
        self.events.push(Event::Released(sum));
    }

    fn fetched(&mut self, request: &Request, packet: HeapBuf, result: Option<Aggregate<'_, HeapShared>>) {
        self.returned.push(packet);
        let sum = result.map(|result| self.sum(result));
        self.events.push(Event::Fetched(who(request), sum));
    }

    fn obeyed(&mut self, request: &Request, packet: HeapBuf) {
        self.returned.push(packet);
        self.events.push(Event::Obeyed(who(request)));
    }

    fn evicted(&mut self, key: Key, what: Evicted<HeapBuf>, cause: Cause) {
        self.events.push(match what {
            Evicted::Result => Event::EvictedResult(key),
            Evicted::GivenUp => Event::EvictedPartial(key),
            Evicted::Partial(partial) => {
                let (payload, ranks) = inside(partial.packet.bytes());
                assert_eq!(payload.len(), usize::from(partial.len));
                let sum = Sum {
                    key,
                    element: partial.element,
                    fan_in: partial.fan_in,
                    count: partial.count,
                    overflow: partial.overflow,
                    first: 0,
                    inside: ranks.clone(),
                    values: values(payload),
                };
                self.returned.push(partial.packet);
                self.again.push(partial.again);
                Event::Evicted { cause, ranks: ranks.unwrap_or_default(), priority: partial.priority, sum }
            }
            Evicted::Originals(originals) => {
                assert_eq!(originals.key, key);
                self.again.push(originals.again);
                let (overflow, priority) = (originals.overflow, originals.priority);
                let mut all: Vec<_> = originals
                    .map(|(rank, packet)| {
                        let values = values(packet.bytes());
                        self.returned.push(packet);
                        (rank, values)
                    })
                    .collect();
                all.sort_unstable();
                Event::Originals { key, cause, overflow, priority, values: all }
            }
        });
    }
}

/// A payload and the ranks that the trailer behind it names.
fn inside(bytes: &[u8]) -> (&[u8], Option<Vec<u16>>) {
    let (payload, trailer) = Trailer::split(bytes).expect("a trailer");
    let bitmap = trailer.bitmap.expect("a bitmap");
    (payload, Some((0..bitmap.capacity()).filter(|&rank| bitmap.contains(rank)).collect()))
}

/// A packet to be, with the request that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) request: Request,
    pub(crate) values: Vec<i32>,
    /// The ranks that a trailer behind the payload names.
    pub(crate) inside: Option<Vec<u16>>,
    /// Bytes behind the payload, such as Ethernet padding.
    pub(crate) trailing: usize,
}

impl Parcel {
    /// The contribution of `rank` of `fan_in` to `key`.
    pub(crate) fn add(key: Key, rank: u16, fan_in: u16, values: &[i32]) -> Self {
        Self {
            request: Request {
                verb: Verb::Add,
                key,
                rank,
                fan_in,
                job_fan_in: fan_in,
                needed: fan_in,
                count: 1,
                inside: 0,
                element: Element::I32_SUM.code(),
                overflow: false,
                again: false,
                partial: false,
                priority: 0,
                rules: Rules::default(),
                offset: OFFSET,
                len: u16::try_from(values.len() * 4).expect("payloads are short"),
                now: 0,
            },
            values: values.to_vec(),
            inside: None,
            trailing: 0,
        }
    }

    /// A kept result of `fan_in` ranks, sent by `rank`.
    pub(crate) fn install(key: Key, rank: u16, fan_in: u16, values: &[i32]) -> Self {
        Self::add(key, rank, fan_in, values).with(|r| {
            r.verb = Verb::Install;
            r.count = fan_in;
        })
    }

    /// The reminder of a rank that waits.
    pub(crate) fn remind(key: Key, rank: u16, fan_in: u16) -> Self {
        Self::add(key, rank, fan_in, &[]).with(|r| r.verb = Verb::Remind)
    }

    /// A kept result of some of `fan_in` ranks, sent by the first of them.
    pub(crate) fn install_of(key: Key, inside: &[u16], fan_in: u16, values: &[i32]) -> Self {
        let parcel = Self::install(key, inside[0], fan_in, values).with(|r| {
            r.count = u16::try_from(inside.len()).expect("no more than ranks");
            r.partial = true;
        });
        Self { inside: Some(inside.to_vec()), ..parcel }
    }

    /// The parameter server wants what there is.
    pub(crate) fn fetch(key: Key, fan_in: u16) -> Self {
        Self::add(key, 0, fan_in, &[]).with(|r| r.verb = Verb::Fetch)
    }

    /// A rank wants what there is to be sent out.
    pub(crate) fn release(key: Key, rank: u16, fan_in: u16) -> Self {
        Self::add(key, rank, fan_in, &[]).with(|r| r.verb = Verb::Release)
    }

    pub(crate) fn at(self, now: u64) -> Self {
        self.with(|r| r.now = now)
    }

    /// The same of a job with this policy.
    pub(crate) fn under(self, policy: &Policy) -> Self {
        self.with(|r| r.rules = Rules::of(policy))
    }

    pub(crate) fn priority(self, priority: u16) -> Self {
        self.with(|r| r.priority = priority)
    }

    /// The same where this many contributions complete a PSN.
    pub(crate) fn needing(self, needed: u16) -> Self {
        self.with(|r| r.needed = needed)
    }

    /// The same with values of this type.
    pub(crate) fn of(self, element: Element) -> Self {
        self.with(|r| r.element = element.code())
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(&mut self.request);
        self
    }

    /// The packet: a header that must not get into any sum, the values, something behind them.
    pub(crate) fn packet(&self, memory: &HeapPool) -> HeapBuf {
        self.packet_with_room(memory, ROOM)
    }

    /// The packet with this much room behind it.
    pub(crate) fn packet_with_room(&self, memory: &HeapPool, room: usize) -> HeapBuf {
        let mut bytes = vec![0xa5; usize::from(self.request.offset)];
        if let Some(head) = bytes.first_chunk_mut() {
            *head = self.request.priority.to_be_bytes();
        }
        bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        if let Some(inside) = &self.inside {
            bytes.extend(trailer(inside, self.request.fan_in));
        }
        bytes.extend(vec![0x5a; self.trailing]);
        memory.alloc(&bytes, bytes.len() + room)
    }
}

/// The trailer that names these of `fan_in` ranks. Ranks outside the job are named where there is room.
fn trailer(inside: &[u16], fan_in: u16) -> Vec<u8> {
    let mut bitmap = Bitmap::new(fan_in).expect("there is such a job");
    inside.iter().for_each(|&rank| assert!(bitmap.insert(rank)));
    let trailer = Trailer { bitmap: Some(bitmap), ..Trailer::default() };
    let mut bytes = vec![0; trailer.emitted_len()];
    trailer.emit(&mut bytes).expect("as long as it said");
    bytes
}

/// The values of a payload.
pub(crate) fn values(payload: &[u8]) -> Vec<i32> {
    let (values, rest) = payload.as_chunks::<4>();
    assert!(rest.is_empty(), "a payload is whole elements");
    values.iter().map(|value| i32::from_le_bytes(*value)).collect()
}

/// Where a packet's payload lies in memory.
pub(crate) fn payload_address(packet: &HeapBuf, request: &Request) -> *const u8 {
    packet.bytes()[usize::from(request.offset)..].as_ptr()
}

/// Brings parcels in as a burst, as an lcore does. All have arrived at the same time.
pub(crate) fn add_burst<const WORDS: usize>(
    session: &mut Session<HeapBuf, WORDS>,
    sink: &mut Recorder,
    parcels: Vec<(&Parcel, Option<Region>, HeapBuf)>,
) {
    let Some(now) = parcels.first().map(|(parcel, ..)| parcel.request.now) else { return };
    assert!(parcels.len() <= BURST && parcels.iter().all(|(parcel, ..)| parcel.request.now == now));
    sink.whole = parcels.iter().map(|(parcel, ..)| parcel.request).collect();
    let gradients: Vec<_> = parcels.iter().map(|(parcel, region, _)| gradient(parcel, *region)).collect();
    let mut known = gradients.iter().map(|(terms, gradient)| (terms, *gradient));
    let mut burst = Burst::new();
    let packets = parcels.into_iter().map(|(.., packet)| packet);
    session.gather(&mut burst, packets, |_| known.next(), |_| panic!("all are recognised"));
    session.add_burst(&mut burst, now, sink);
    assert_eq!(burst.gradients().count(), 0);
}

/// A contribution as the fast path has it.
pub(crate) fn gradient(parcel: &Parcel, region: Option<Region>) -> (Terms, Gradient) {
    let request = &parcel.request;
    let key = request.key;
    let terms = Terms::new(key.job(), key.epoch(), request.rank, request.fan_in, request.needed, region);
    let gradient = terms.gradient(key.psn(), request.element, request.len);
    (terms, if request.again || request.overflow { gradient.noteworthy() } else { gradient })
}

/// True if the fast path recognises such a packet.
pub(crate) fn is_fast(parcel: &Parcel, packet: &HeapBuf) -> bool {
    let r = &parcel.request;
    r.verb == Verb::Add
        && (r.count, r.inside, r.offset, r.partial) == (1, 0, OFFSET, false)
        && r.fan_in == r.job_fan_in
        && r.rank < r.fan_in
        && Element::from_code(r.element).is_some()
        && packet.bytes().len() >= usize::from(r.offset) + usize::from(r.len)
}

/// The payload that these values make.
pub(crate) fn bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Ranks that share one value of a signature.
pub(crate) const RANKS_PER_VALUE: u16 = 3;

/// A payload whose sum says how often each of `fan_in` ranks is inside, up to 255 times: eight bits per rank.
pub(crate) fn signature(rank: u16, fan_in: u16) -> Vec<i32> {
    let mut values = vec![0; usize::from(fan_in.div_ceil(RANKS_PER_VALUE))];
    values[usize::from(rank / RANKS_PER_VALUE)] = 1 << (8 * (rank % RANKS_PER_VALUE));
    values
}

/// How often each rank is inside a sum of signatures.
pub(crate) fn counts(sum: &[i32]) -> impl Iterator<Item = i32> {
    sum.iter().flat_map(|value| (0..RANKS_PER_VALUE).map(move |n| value >> (8 * n) & 0xff))
}

/// The sum of the signatures of all ranks.
pub(crate) fn full_signature(fan_in: u16) -> Vec<i32> {
    sum_of_ranks(&(0..fan_in).collect::<Vec<_>>(), fan_in)
}

/// The sum of the signatures of some ranks.
pub(crate) fn sum_of_ranks(ranks: &[u16], fan_in: u16) -> Vec<i32> {
    ranks.iter().fold(vec![0; usize::from(fan_in.div_ceil(RANKS_PER_VALUE))], |mut sum, &rank| {
        for (a, b) in sum.iter_mut().zip(signature(rank, fan_in)) {
            *a += b;
        }
        sum
    })
}

pub(crate) fn config(slots: usize, ways: usize) -> PoolConfig {
    PoolConfig {
        slots,
        reserved: 0,
        ways,
        age_limit: Duration::from_nanos(1000 * TICK),
        remind_interval: Duration::from_micros(10),
    }
}

/// The PSNs of job 1, generation 1, that fall into set 0 of this many sets.
pub(crate) fn keys_of_one_set(sets: usize) -> impl Iterator<Item = Key> {
    (0..).map(|psn| Key::new(1, 1, psn)).filter(move |key| key.place(sets) == 0)
}

/// A pool with one user, its packets and what came out of it.
pub(crate) struct Rig<const WORDS: usize = 1> {
    pub(crate) memory: HeapPool,
    pub(crate) session: Session<HeapBuf, WORDS>,
    pub(crate) sink: Recorder,
    /// Whatever the fast path recognises is brought in as a burst.
    pub(crate) fast: bool,
}

impl Rig<1> {
    pub(crate) fn new(slots: usize, ways: usize) -> Self {
        Self::of(&config(slots, ways))
    }
}

impl<const WORDS: usize> Rig<WORDS> {
    pub(crate) fn of(config: &PoolConfig) -> Self {
        Self::with(config, Kernels::scalar())
    }

    pub(crate) fn with(config: &PoolConfig, kernels: Kernels) -> Self {
        let mut sessions = Pool::sessions(config, kernels, 1).expect("a valid layout");
        Self {
            memory: HeapPool::new(),
            session: sessions.pop().expect("one session"),
            sink: Recorder::default(),
            fast: false,
        }
    }

    /// The same, brought in by way of the fast path if `fast`.
    pub(crate) fn by_way(self, fast: bool) -> Self {
        Self { fast, ..self }
    }

    /// Offers a packet and gives the events. What came with them stays in the sink until the next call.
    pub(crate) fn offer(&mut self, parcel: &Parcel) -> Vec<Event> {
        self.bring_in(parcel, None)
    }

    fn bring_in(&mut self, parcel: &Parcel, region: Option<Region>) -> Vec<Event> {
        self.sink.take();
        let packet = parcel.packet(&self.memory);
        if self.fast && is_fast(parcel, &packet) {
            add_burst(&mut self.session, &mut self.sink, vec![(parcel, region, packet)]);
            if std::mem::take(&mut self.sink.silent) > 0 {
                self.sink.events.push(Event::Added(who(&parcel.request)));
            }
        } else {
            self.session.offer(&parcel.request, region, packet, &mut self.sink);
        }
        std::mem::take(&mut self.sink.events)
    }

    /// The same for a request that must get exactly one event.
    #[track_caller]
    pub(crate) fn one(&mut self, parcel: &Parcel) -> Event {
        let mut events = self.offer(parcel);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// The same for a job with a region of its own.
    pub(crate) fn offer_in(&mut self, region: Region, parcel: &Parcel) -> Vec<Event> {
        self.bring_in(parcel, Some(region))
    }

    /// The same for a request that must get exactly one event.
    #[track_caller]
    pub(crate) fn one_in(&mut self, region: Region, parcel: &Parcel) -> Event {
        let mut events = self.offer_in(region, parcel);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn sweep(&mut self, sets: usize, outdated: impl Fn(Key) -> bool) -> Vec<Event> {
        self.judge(sets, |key, _| if outdated(key) { SweepAction::Vacate } else { SweepAction::Keep })
    }

    /// Sweeps some sets, with what is to be done with each slot.
    pub(crate) fn judge(
        &mut self,
        sets: usize,
        judge: impl Fn(Key, Option<u64>) -> SweepAction,
    ) -> Vec<Event> {
        self.sink.take();
        self.session.sweep(sets, judge, &mut self.sink);
        std::mem::take(&mut self.sink.events)
    }

    /// Lets everything go, and proves that nothing was held elsewhere.
    #[track_caller]
    pub(crate) fn close(mut self) {
        self.sink.take();
        drop(self.session);
        assert_eq!(self.memory.live(), 0, "packets leaked");
    }
}

/// The values of the sum in a completion, replay or installation.
#[track_caller]
pub(crate) fn sum_of(event: &Event) -> &Sum {
    match event {
        Event::Completed { sum, .. }
        | Event::Replayed(_, sum)
        | Event::Installed { sum, .. }
        | Event::PassedOn { sum, .. }
        | Event::Released(sum)
        | Event::Fetched(_, Some(sum))
        | Event::Reminded(_, Known::Cached(sum)) => sum,
        other => panic!("no sum in {other:?}"),
    }
}
