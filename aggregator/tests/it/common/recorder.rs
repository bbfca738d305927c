//! A sink that writes everything down, by value.

use pascaline_aggregator::{
    Aggregate, Burst, BurstSink, Cause, Contribution, Evicted, Gradient, Key, RankSet, Rejection, Reminded,
    Request, Rules, Sink,
};
use pascaline_buffer::{HeapBuf, HeapShared, PacketBuf, SharedBuf};
use pascaline_wire::trailer::Trailer;

use super::{OFFSET, values};

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
    /// A partial that was not needed.
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
        let Aggregate { key, element, fan_in, count, overflow, partial, first, round, payload, .. } =
            aggregate;
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

pub(super) fn who(request: &Request) -> Who {
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

    fn release_accepted(&mut self, request: &Request, packet: HeapBuf) {
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
