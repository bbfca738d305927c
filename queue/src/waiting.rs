//! An update that waits: Olaf's memory segment, whose memory is the packet itself.

use pascaline_buffer::PacketBuf;

use crate::combine::{Combiner, Kernel};
use crate::update::{Departure, Update};

/// One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Waiting<B> {
    /// What waits; only the reward is that of the first update inside.
    update: Update,
    packet: B,
    /// The sum of count × reward of everything inside: exact, or nearly so, where a mean would be rounded
    /// each time.
    rewards: f64,
    aggregations: u32,
    /// Whether the payload is an accumulator.
    accumulating: bool,
}

const _: () = assert!(size_of::<Waiting<pascaline_buffer::HeapBuf>>() == 64);

/// How the reward of an update compares with that of the one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Higher,
    Comparable,
    Lower,
}

impl<B: PacketBuf> Waiting<B> {
    /// Cuts the packet off behind the payload: now, because now it is near.
    #[inline]
    pub(crate) fn new(update: Update, mut packet: B) -> Self {
        packet.truncate(update.payload().end);
        let rewards = f64::from(update.reward) * f64::from(update.count);
        Self { update, packet, rewards, aggregations: 0, accumulating: false }
    }

    /// Whose it is, and of what.
    #[inline]
    pub(crate) const fn update(&self) -> &Update {
        &self.update
    }

    /// Reads from the payload what nobody waits for, so that it is near when it is needed. A prefetch
    /// instruction would do the same, but not every kind of packet has one.
    #[inline]
    pub(crate) fn touch(&self) {
        core::hint::black_box(self.packet.bytes().get(usize::from(self.update.offset)).copied());
    }

    /// Puts another update in this one's place and gives back the packet.
    #[inline]
    pub(crate) fn replace(&mut self, update: Update, packet: B) -> B {
        core::mem::replace(self, Self::new(update, packet)).packet
    }

    /// Compares rewards: mean against mean, both sides multiplied by the count so that nothing is divided.
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

    /// Combines an update with this one; `count` is what both stand for. False, and nothing done, where a
    /// packet has no room for the sum.
    #[inline]
    pub(crate) fn aggregate(&mut self, kernel: &Kernel, count: u16, update: &Update, from: &mut B) -> bool {
        let into = (&mut self.packet, &self.update, self.accumulating);
        let Some(overflow) = kernel.add(into, (from, update)) else { return false };
        self.update.count = count;
        // Numbers are serial (RFC 1982): the newer one is less than half of them ahead.
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

    /// What it is to the outside.
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

    /// Lets it go.
    #[inline]
    pub(crate) fn depart(mut self, combiner: &Combiner) -> Departure<B> {
        if self.accumulating
            && let Some(kernel) = combiner.kernel(self.update.element)
        {
            kernel.end(&mut self.packet, &self.update);
        }
        Departure { update: self.seen(), packet: self.packet, aggregations: self.aggregations }
    }
}
