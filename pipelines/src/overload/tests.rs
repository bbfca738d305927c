use super::*;

const WEIGHTS: [u32; TENANTS] = [1; TENANTS];

/// Turns with full bursts, each with as many packets of each tenant, of which so many come to results. How
/// many of the last interval were admitted.
fn admitted(overload: &mut Overload, turns: u32, packets: &[(u8, u32, u16)]) -> Vec<u32> {
    let mut admitted = vec![0; packets.len()];
    for _ in 0..turns {
        overload.turn(true, &WEIGHTS);
        if (overload.full).is_multiple_of(INTERVAL) {
            admitted.fill(0);
        }
        for (admitted, &(tenant, packets, results)) in admitted.iter_mut().zip(packets) {
            if overload.is_on() {
                *admitted += (0..packets).map(|_| u32::from(overload.admits(Tenant(tenant)))).sum::<u32>();
                overload.came_to_a_result(Tenant(tenant), results);
            }
        }
    }
    admitted
}

const LONG: u32 = SUSTAINED + 10 * INTERVAL - 1;

#[test]
fn who_wastes_more_than_his_share_is_cut_and_nobody_else() {
    let mut overload = Overload::default();
    let got = admitted(&mut overload, LONG, &[(1, 30, 0), (2, 10, 0), (3, 2, 0)]);
    let share = 42 * INTERVAL / 3;
    assert_eq!(got, [share, 10 * INTERVAL, 2 * INTERVAL]);
}

#[test]
fn what_comes_to_results_is_not_cut() {
    let mut overload = Overload::default();
    assert_eq!(admitted(&mut overload, LONG, &[(1, 30, 30), (2, 2, 0)]), [30 * INTERVAL, 2 * INTERVAL]);
}

#[test]
fn a_job_that_is_alone_is_not_cut() {
    assert_eq!(admitted(&mut Overload::default(), LONG, &[(1, 32, 0)]), [32 * INTERVAL]);
}

#[test]
fn a_turn_with_room_ends_it() {
    let mut overload = Overload::default();
    (1..SUSTAINED).for_each(|_| overload.turn(true, &WEIGHTS));
    assert!(!overload.is_on(), "the windows of some jobs explain as much");
    overload.turn(true, &WEIGHTS);
    assert!(overload.is_on());
    admitted(&mut overload, 3 * INTERVAL, &[(1, 30, 0), (2, 1, 0)]);
    overload.turn(false, &WEIGHTS);
    assert!(!overload.is_on());
    assert!((0..100_000).all(|_| overload.admits(Tenant(1))), "all begins anew");
}
