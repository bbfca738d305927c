//! How many packets a pool needs so that it cannot run dry in normal operation.

/// Who holds packets, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Ports that fill their rings from the pool.
    pub ports: usize,
    /// Receive queues, and as many transmit queues, per port.
    pub queues: usize,
    /// Descriptors per receive queue; each holds a packet.
    pub rx_desc: usize,
    /// Descriptors per transmit queue; each may hold a packet until the device has sent it and more are queued.
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

/// The least 2^n - 1 that covers the demand, which is the size a pool's ring holds without waste.
///
/// An lcore has one burst received and not yet dealt with and another one made and not yet sent; its cache may grow
/// to 1.5 times its nominal size before it is flushed, and packets in one lcore's cache are out of reach of another.
#[must_use]
pub fn buffers_needed(demand: &Demand) -> usize {
    let Demand { ports, queues, rx_desc, tx_desc, lcores, burst, cache, slots } = *demand;
    let rings = ports.saturating_mul(queues).saturating_mul(rx_desc.saturating_add(tx_desc));
    let per_lcore = burst.saturating_mul(2).saturating_add(cache.saturating_add(cache.div_ceil(2)));
    let sum = rings.saturating_add(lcores.saturating_mul(per_lcore)).saturating_add(slots);
    sum.saturating_add(1).checked_next_power_of_two().map_or(usize::MAX, |power| power - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Demand = Demand {
        ports: 2,
        queues: 1,
        rx_desc: 512,
        tx_desc: 512,
        lcores: 2,
        burst: 32,
        cache: 250,
        slots: 0,
    };

    #[test]
    fn rings_lcores_and_slots_add_up() {
        // 2 × 1 × 1024 + 2 × (64 + 375) = 2926, and 4095 is the next 2^n - 1.
        assert_eq!(buffers_needed(&SMALL), 4095);
        assert_eq!(buffers_needed(&Demand { slots: 4096, ..SMALL }), 8191);
    }

    #[test]
    fn an_exact_fit_is_not_rounded_up() {
        let slots = 1023;
        assert_eq!(buffers_needed(&Demand { slots, ..Demand::default() }), 1023);
        assert_eq!(buffers_needed(&Demand { slots: slots + 1, ..Demand::default() }), 2047);
    }

    #[test]
    fn nothing_needs_nothing_and_the_absurd_does_not_overflow() {
        assert_eq!(buffers_needed(&Demand::default()), 0);
        assert_eq!(buffers_needed(&Demand { slots: usize::MAX, ..SMALL }), usize::MAX);
    }

    #[test]
    fn more_demand_never_needs_less() {
        let mut before = 0;
        for queues in 0..64 {
            let now = buffers_needed(&Demand { queues, ..SMALL });
            assert!(now >= before);
            before = now;
        }
    }
}
