//! What the tests share: packets whose sums tell what is inside, and a sink that writes everything down.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod trace;

use std::time::Duration;

use pascaline_aggregator::{
    Aggregate, Displaced, Key, Pool, PoolConfig, RankSet, Refusal, Reminded, Request, Session, Sink, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, PacketBuf, SharedBuf};
use pascaline_wire::Element;

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
    pub(crate) values: Vec<i32>,
}

/// The answer to a reminder, by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    Kept(Sum),
    Partial(Vec<u16>),
    Recently,
    Unknown,
}

/// One call of a sink, by value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Opened(Who),
    Added(Who),
    /// `own`: the contribution's own packet became the result.
    Completed {
        who: Who,
        own: bool,
        sum: Sum,
    },
    Replayed(Who, Sum),
    Installed {
        who: Who,
        partial: bool,
        sum: Sum,
    },
    /// A kept result was given out and not kept.
    PassedOn {
        who: Who,
        sum: Sum,
    },
    Reminded(Who, Known),
    Refused(Who, Refusal),
    HandedOff,
    DisplacedResult(Key),
    DisplacedPartial(Key),
}

impl Event {
    /// True for the one event that every request gets.
    pub(crate) fn answers_a_request(&self) -> bool {
        !matches!(self, Self::HandedOff | Self::DisplacedResult(_) | Self::DisplacedPartial(_))
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
}

impl Recorder {
    /// The events since the last call; packets and payloads that came with them are let go.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        self.returned.clear();
        self.payloads.clear();
        std::mem::take(&mut self.events)
    }

    fn sum(&mut self, aggregate: Aggregate<'_, HeapShared>) -> Sum {
        let Aggregate { key, element, fan_in, count, overflow, first, payload } = aggregate;
        let values = values(payload.bytes());
        self.payloads.push(payload.clone());
        Sum { key, element, fan_in, count, overflow, first, values }
    }
}

fn who(request: &Request) -> Who {
    Who { key: request.key, rank: request.rank }
}

impl<const WORDS: usize> Sink<HeapBuf, WORDS> for Recorder {
    fn opened(&mut self, request: &Request) {
        self.events.push(Event::Opened(who(request)));
    }

    fn added(&mut self, request: &Request, spent: HeapBuf) {
        self.returned.push(spent);
        self.events.push(Event::Added(who(request)));
    }

    fn completed(&mut self, request: &Request, spent: Option<HeapBuf>, result: Aggregate<'_, HeapShared>) {
        let own = spent.is_none();
        self.returned.extend(spent);
        let sum = self.sum(result);
        self.events.push(Event::Completed { who: who(request), own, sum });
    }

    fn replayed(&mut self, request: &Request, packet: HeapBuf, result: Aggregate<'_, HeapShared>) {
        self.returned.push(packet);
        let sum = self.sum(result);
        self.events.push(Event::Replayed(who(request), sum));
    }

    fn installed(&mut self, request: &Request, partial: Option<HeapBuf>, result: Aggregate<'_, HeapShared>) {
        let had_partial = partial.is_some();
        self.returned.extend(partial);
        let sum = self.sum(result);
        self.events.push(Event::Installed { who: who(request), partial: had_partial, sum });
    }

    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, HeapShared>) {
        let sum = self.sum(result);
        self.events.push(Event::PassedOn { who: who(request), sum });
    }

    fn reminded(&mut self, request: &Request, packet: HeapBuf, state: Reminded<'_, HeapShared, WORDS>) {
        self.returned.push(packet);
        let known = match state {
            Reminded::Kept(result) => Known::Kept(self.sum(result)),
            Reminded::Partial(ranks) => {
                Known::Partial((0..RankSet::<WORDS>::CAPACITY).filter(|&rank| ranks.contains(rank)).collect())
            }
            Reminded::Recently => Known::Recently,
            Reminded::Unknown => Known::Unknown,
        };
        self.events.push(Event::Reminded(who(request), known));
    }

    fn refused(&mut self, request: &Request, packet: HeapBuf, why: Refusal) {
        self.returned.push(packet);
        self.events.push(Event::Refused(who(request), why));
    }

    fn handed_off(&mut self) {
        self.events.push(Event::HandedOff);
    }

    fn displaced(&mut self, key: Key, what: Displaced<HeapBuf>) {
        self.events.push(match what {
            Displaced::Result => Event::DisplacedResult(key),
            Displaced::Partial(packet) => {
                self.returned.push(packet);
                Event::DisplacedPartial(key)
            }
        });
    }
}

/// A packet to be, with the request that goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) request: Request,
    pub(crate) values: Vec<i32>,
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
                count: 1,
                element: Element::I32_SUM.code(),
                overflow: false,
                offset: 64,
                len: u16::try_from(values.len() * 4).expect("payloads are short"),
                now: 0,
            },
            values: values.to_vec(),
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

    pub(crate) fn at(self, now: u64) -> Self {
        self.with(|r| r.now = now)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Request)) -> Self {
        change(&mut self.request);
        self
    }

    /// The packet: a header that must not get into any sum, the values, something behind them.
    pub(crate) fn packet(&self, memory: &HeapPool) -> HeapBuf {
        let mut bytes = vec![0xa5; usize::from(self.request.offset)];
        bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(vec![0x5a; self.trailing]);
        memory.alloc(&bytes, 0)
    }
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

/// A payload whose sum says how often each of `fan_in` ranks is inside: two bits per rank.
pub(crate) fn signature(rank: u16, fan_in: u16) -> Vec<i32> {
    let mut values = vec![0; usize::from(fan_in).div_ceil(15)];
    values[usize::from(rank / 15)] = 1 << (2 * (rank % 15));
    values
}

/// The sum of the signatures of all ranks.
pub(crate) fn full_signature(fan_in: u16) -> Vec<i32> {
    (0..fan_in).fold(vec![0; usize::from(fan_in).div_ceil(15)], |mut sum, rank| {
        for (a, b) in sum.iter_mut().zip(signature(rank, fan_in)) {
            *a += b;
        }
        sum
    })
}

pub(crate) fn config(slots: usize, ways: usize) -> PoolConfig {
    PoolConfig {
        slots,
        ways,
        age_limit: Duration::from_nanos(1000 * TICK),
        remind_interval: Duration::from_micros(10),
    }
}

/// The PSNs of job 1, generation 1, that fall into set 0 of 2^`bits` sets.
pub(crate) fn keys_of_one_set(bits: u32) -> impl Iterator<Item = Key> {
    (0..).map(|psn| Key::new(1, 1, psn)).filter(move |key| key.place(bits) == 0)
}

/// A pool with one user, its packets and what came out of it.
pub(crate) struct Rig<const WORDS: usize = 1> {
    pub(crate) memory: HeapPool,
    pub(crate) session: Session<HeapBuf, WORDS>,
    pub(crate) sink: Recorder,
}

impl Rig<1> {
    pub(crate) fn new(slots: usize, ways: usize) -> Self {
        Self::of(&config(slots, ways))
    }
}

impl<const WORDS: usize> Rig<WORDS> {
    pub(crate) fn of(config: &PoolConfig) -> Self {
        let mut sessions = Pool::sessions(config, Kernels::scalar(), 1).expect("a valid layout");
        Self {
            memory: HeapPool::new(),
            session: sessions.pop().expect("one session"),
            sink: Recorder::default(),
        }
    }

    /// Offers a packet and gives the events. What came with them stays in the sink until the next call.
    pub(crate) fn offer(&mut self, parcel: &Parcel) -> Vec<Event> {
        self.sink.take();
        let packet = parcel.packet(&self.memory);
        self.session.offer(&parcel.request, packet, &mut self.sink);
        std::mem::take(&mut self.sink.events)
    }

    /// The same for a request that must get exactly one event.
    #[track_caller]
    pub(crate) fn one(&mut self, parcel: &Parcel) -> Event {
        let mut events = self.offer(parcel);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) fn sweep(&mut self, sets: usize, outdated: impl Fn(Key) -> bool) -> Vec<Event> {
        self.sink.take();
        self.session.sweep(sets, outdated, &mut self.sink);
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
        | Event::Reminded(_, Known::Kept(sum)) => sum,
        other => panic!("no sum in {other:?}"),
    }
}
