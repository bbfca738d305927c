//! A switch that adds: the real pool, with a region for each tree.

use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Evicted, Key, Policy, Pool, PoolConfig, PoolConfigError, Region,
    Rejection, Request, Rules, Session, Sink, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf, SharedBuf};
use pascaline_wire::Element;

/// Slots of a tree: twice its window.
const REGION: u32 = 2 * super::WINDOW as u32;
/// Bytes of a payload: how many workers are inside.
const LEN: u16 = 4;
/// Room of a packet: a sum of some ranks has a trailer that names them.
const ROOM: usize = 64;

pub(super) struct Adder {
    session: Session<HeapBuf>,
    buffers: HeapPool,
    sums: Sums,
    /// Trees by their place, which is their region's.
    trees: Vec<u32>,
}

/// The outcome of a contribution.
#[derive(Default)]
struct Sums {
    done: Option<u32>,
    spare: Vec<HeapBuf>,
    refused: u64,
}

impl Adder {
    /// A pool for these trees.
    pub(super) fn new(trees: Vec<u32>) -> Result<Self, PoolConfigError> {
        let slots = (REGION as usize * trees.len().max(1)).next_power_of_two();
        let config = PoolConfig { slots, reserved: slots, ways: 1, ..PoolConfig::default() };
        let mut sessions = Pool::sessions(&config, Kernels::detect(), 1)?;
        let session = sessions.pop().ok_or(PoolConfigError::Slots(0))?;
        Ok(Self { session, buffers: HeapPool::new(), sums: Sums::default(), trees })
    }

    /// Adds a rank's contribution. `needed` of the `fan_in` ranks complete a sum: then returns it.
    pub(super) fn add(
        &mut self,
        now: u64,
        tree: u32,
        psn: u32,
        rank: u16,
        (fan_in, needed): (u16, u16),
        of: u32,
    ) -> Option<u32> {
        let place = self.trees.iter().position(|&other| other == tree)?;
        let job = u16::try_from(place).ok()?;
        let region = Region { first: u32::from(job) * REGION, sets: REGION };
        let policy = Policy { region: Some(region), ..Policy::default() };
        let request = Request {
            verb: Verb::Add,
            key: Key::new(job, 1, psn),
            rank,
            fan_in,
            job_fan_in: fan_in,
            needed,
            count: 1,
            inside: 0,
            element: Element::I32_SUM.code(),
            overflow: false,
            again: false,
            partial: false,
            marked: false,
            priority: 0,
            rules: Rules::of(&policy),
            offset: 0,
            len: LEN,
            now,
        };
        let bytes = of.to_le_bytes();
        let packet = match self.sums.spare.pop() {
            Some(mut packet) => {
                // One that had a trailer is longer; all have the room.
                let fits = packet.set_len(bytes.len());
                debug_assert!(fits, "a packet without room");
                packet.bytes_mut().copy_from_slice(&bytes);
                packet
            }
            None => self.buffers.alloc(&bytes, ROOM),
        };
        self.sums.done = None;
        self.session.offer(&request, policy.region, packet, &mut self.sums);
        self.sums.done
    }

    /// Contributions that found no slot: none while windows are kept.
    pub(super) const fn refused(&self) -> u64 {
        self.sums.refused
    }
}

impl Sink<HeapBuf> for Sums {
    fn opened(&mut self, _: &Contribution) {}

    fn added(&mut self, _: &Contribution) {}

    fn completed(&mut self, _: &Contribution, _: bool, sum: Aggregate<'_, <HeapBuf as PacketBuf>::Shared>) {
        self.done = sum.payload.bytes().first_chunk().map(|&bytes| u32::from_le_bytes(bytes));
    }

    fn rejected(&mut self, _: &Request, packet: HeapBuf, _: Rejection) {
        self.refused += 1;
        self.spare.push(packet);
    }

    fn recycled(&mut self, packet: HeapBuf) {
        self.spare.push(packet);
    }

    fn evicted(&mut self, _: Key, what: Evicted<HeapBuf>, _: Cause) {
        if let Evicted::Partial(_) = what {
            self.refused += 1;
        }
    }
}
