//! Packets to be, and how they are brought in.

use pascaline_aggregator::{
    BURST, Burst, Gradient, Key, Policy, Region, Request, Rules, Session, Terms, Verb,
};
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_wire::Element;
use pascaline_wire::trailer::{Bitmap, Trailer};

use super::{OFFSET, Recorder};

/// Room behind a packet's bytes, for a trailer.
const ROOM: usize = 160;

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
                marked: false,
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

    /// The parameter server fetches the partial.
    pub(crate) fn fetch(key: Key, fan_in: u16) -> Self {
        Self::add(key, 0, fan_in, &[]).with(|r| r.verb = Verb::Fetch)
    }

    /// A rank asks that the partial be sent out.
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
    let terms =
        Terms::new(key.job(), key.generation().into(), request.rank, request.fan_in, request.needed, region);
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
