use core::sync::atomic::AtomicU64;

use super::*;

/// A device that is closed while lcores are at work.
#[test]
fn no_lcore_is_inside_while_it_is_shut() {
    const ROUNDS: u64 = 200;
    let gates: Vec<Arc<Gate>> = (0..2).map(|_| Arc::default()).collect();
    let (device, over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for gate in &gates {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    // Odd: being changed.
                    let seen = gate.pass(|| (device.load(Relaxed), device.load(Relaxed)));
                    assert!(seen.is_none_or(|(one, other)| one == other && one % 2 == 0), "{seen:?}");
                }
            });
        }
        // Judged only once `over` is set: the scope waits for the other threads.
        let all_shut = (0..ROUNDS).all(|_| {
            let shut = close(&gates) && gates[0].pass(|| ()).is_none();
            device.fetch_add(1, Relaxed);
            thread::yield_now();
            device.fetch_add(1, Relaxed);
            open(&gates);
            shut
        });
        over.store(true, Relaxed);
        assert!(all_shut);
    });
    assert_eq!(gates[0].pass(|| device.load(Relaxed)), Some(2 * ROUNDS));
}
