//! Updates for tests.

use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_queue::{Config, EnqueueOutcome, Enqueued, Update, UpdateQueue};

/// What stands before the payload in every packet.
pub(crate) const HEADERS: [u8; 6] = *b"header";
/// What stands behind it.
pub(crate) const TRAILER: [u8; 3] = [0xa5; 3];
/// The time at which tests take place, unless they say otherwise.
pub(crate) const NOW: u64 = 1_000_000_000_000;

/// A single update of two floats, generated at [`NOW`].
pub(crate) fn update(cluster: u32, worker: u16) -> Update {
    Update { offset: 6, ..Update::new(cluster, worker, NOW, 8) }
}

/// A queue, and where its packets come from.
pub(crate) struct Rig {
    pub(crate) pool: HeapPool,
    pub(crate) queue: UpdateQueue<HeapBuf>,
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        let queue = UpdateQueue::new(&config, &Kernels::detect()).expect("a right configuration");
        Self { pool: HeapPool::new(), queue }
    }

    /// A packet with headers, payload and trailer, and room for twice the payload.
    pub(crate) fn packet(&self, payload: &[u8]) -> HeapBuf {
        self.pool.alloc(&[&HEADERS, payload, &TRAILER].concat(), HEADERS.len() + 2 * payload.len())
    }

    /// Offers an update of two equal floats.
    pub(crate) fn offer(&mut self, update: Update, value: f32) -> EnqueueOutcome {
        self.enqueue(update, &[value; 2].map(f32::to_le_bytes).concat()).outcome
    }

    pub(crate) fn enqueue(&mut self, update: Update, payload: &[u8]) -> Enqueued<HeapBuf> {
        let packet = self.packet(payload);
        self.queue.enqueue(NOW, update, packet)
    }

    /// The head: what it is and the first of its floats.
    pub(crate) fn take(&mut self) -> Option<(Update, f32)> {
        let departure = self.queue.dequeue()?;
        let payload = pascaline_buffer::PacketBuf::bytes(&departure.packet);
        assert_eq!(payload[..6], HEADERS);
        let (values, rest) = payload[6..].as_chunks();
        assert!(rest.is_empty() && values.len() == usize::from(departure.update.len) / 4);
        Some((departure.update, f32::from_le_bytes(values[0])))
    }
}
