//! An update that waits: Olaf's memory segment, whose memory is the packet itself.

use pascaline_buffer::PacketBuf;

use crate::combine::{Combiner, Kernel};
use crate::update::{Departure, Update};

/// One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Waiting<B> {
    /// The update; its reward is that of the first one inside.
    update: Update,
    packet: B,
    /// The sum of count × reward over all inside: a mean would be rounded each time.
    rewards: f64,
    aggregations: u32,
    /// Whether the payload is an accumulator.
    accumulating: bool,
}

const _: () = assert!(size_of::<Waiting<pascaline_buffer::HeapBuf>>() == 64);

/// How an update's reward compares with that of the waiting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Higher,
    Comparable,
    Lower,
}

impl<B: PacketBuf> Waiting<B> {
    /// Cuts the packet off behind the payload now, while it is in the cache. The update is copied from where
    /// it lies: a value, whose fields are read before, would be copied field by field.
    #[inline]
    pub(crate) fn new(update: &Update, mut packet: B) -> Self {
        packet.truncate(update.payload().end);
        let rewards = f64::from(update.reward) * f64::from(update.count);
        Self { update: *update, packet, rewards, aggregations: 0, accumulating: false }
    }

    /// The update, with the reward of the first one inside.
    #[inline]
    pub(crate) const fn update(&self) -> &Update {
        &self.update
    }

    /// Prefetches the payload by an unused read: not every kind of packet has another way.
    #[inline]
    pub(crate) fn prefetch(&self) {
        core::hint::black_box(self.packet.bytes().get(usize::from(self.update.offset)).copied());
    }

    /// Replaces this update and returns its packet.
    #[inline]
    pub(crate) fn replace(&mut self, update: &Update, packet: B) -> B {
        core::mem::replace(self, Self::new(update, packet)).packet
    }

    /// Compares means, both sides multiplied by the count to avoid a division.
    #[inline]
    pub(crate) fn standing(&self, reward: f32, threshold: f32) -> Standing {
        let count = f64::from(self.update.count);
        let ahead = f64::from(reward) * count - self.rewards;
        let threshold = f64::from(threshold) * count;
        if ahead > threshold {
            Standing::Higher
        } else if ahead < -threshold {
            Standing::Lower
        } else {
            Standing::Comparable
        }
    }

    /// Combines an update with this one; `count` is the sum of both. Returns false and changes nothing if a
    /// packet has no room.
    #[inline]
    pub(crate) fn aggregate(&mut self, kernel: &Kernel, count: u16, update: &Update, from: &mut B) -> bool {
        let into = (&mut self.packet, &self.update, self.accumulating);
        let Some(overflow) = kernel.add(into, (from, update)) else { return false };
        self.update.count = count;
        // Serial numbers (RFC 1982): the newer one is less than half of them ahead.
        if update.worker == self.update.worker && update.psn.wrapping_sub(self.update.psn) < 1 << 31 {
            self.update.psn = update.psn;
        }
        self.update.overflow |= overflow | update.overflow;
        self.update.generated_ns = self.update.generated_ns.max(update.generated_ns);
        self.rewards += f64::from(update.reward) * f64::from(update.count);
        self.aggregations += 1;
        self.accumulating = true;
        true
    }

    /// The update as it would depart now.
    #[inline]
    pub(crate) fn seen(&self) -> Update {
        Update { reward: self.reward(), ..self.update }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a mean of such numbers is within their range")]
    fn reward(&self) -> f32 {
        if self.aggregations == 0 {
            return self.update.reward;
        }
        (self.rewards / f64::from(self.update.count)) as f32
    }

    /// Turns the accumulator into a payload again.
    #[inline]
    pub(crate) fn end(&mut self, combiner: &Combiner) {
        if self.accumulating
            && let Some(kernel) = combiner.kernel(self.update.element)
        {
            kernel.end(&mut self.packet, &self.update);
        }
        self.update.reward = self.reward();
    }

    /// Takes the update and its packet out, once they are [as they depart](Self::end).
    #[inline]
    pub(crate) fn depart(self) -> Departure<B> {
        Departure { update: self.update, packet: self.packet, aggregations: self.aggregations }
    }
}
