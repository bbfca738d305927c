use super::*;

const SMALL: Demand =
    Demand { ports: 2, queues: 1, rx_desc: 512, tx_desc: 512, lcores: 2, burst: 32, cache: 250, slots: 0 };

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
