//! How many packets a pool needs so that it never runs dry in normal operation.

/// Holders of packets, and their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Ports that fill their rings from the pool.
    pub ports: usize,
    /// Receive queues, and as many transmit queues, per port.
    pub queues: usize,
    /// Descriptors per receive queue; each holds a packet.
    pub rx_desc: usize,
    /// Descriptors per transmit queue; each may hold a packet until it is sent and more are queued.
    pub tx_desc: usize,
    /// Lcores that use the pool, the main lcore included.
    pub lcores: usize,
    /// Packets an lcore handles at once.
    pub burst: usize,
    /// The pool's cache per lcore.
    pub cache: usize,
    /// Packets that the application keeps.
    pub slots: usize,
}

/// The least 2^n - 1 that covers the demand: a pool's ring holds that without waste.
///
/// An lcore has one burst received and another to be sent. Its cache may grow to 1.5 times its size before it
/// is flushed, and other lcores cannot reach packets in it.
#[must_use]
pub fn buffers_needed(demand: &Demand) -> usize {
    let Demand { ports, queues, rx_desc, tx_desc, lcores, burst, cache, slots } = *demand;
    let rings = ports.saturating_mul(queues).saturating_mul(rx_desc.saturating_add(tx_desc));
    let per_lcore = burst.saturating_mul(2).saturating_add(cache.saturating_add(cache.div_ceil(2)));
    let sum = rings.saturating_add(lcores.saturating_mul(per_lcore)).saturating_add(slots);
    sum.saturating_add(1).checked_next_power_of_two().map_or(usize::MAX, |power| power - 1)
}

#[cfg(test)]
mod tests;
