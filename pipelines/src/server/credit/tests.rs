use super::*;

const WEIGHTS: [u32; TENANTS] = {
    let mut weights = [0; TENANTS];
    (weights[1], weights[2]) = (1, 3);
    weights
};

/// Packets that a tenant may send at a time.
fn sent(credit: &mut Credit, tenant: u8, now: u64) -> u32 {
    (0..).take_while(|_| credit.spend(Tenant(tenant), now, &WEIGHTS)).count().try_into().unwrap()
}

#[test]
fn what_comes_to_nothing_is_sent_at_a_rate_by_share() {
    let mut credit = Credit::default();
    assert_eq!((sent(&mut credit, 1, 1), sent(&mut credit, 2, 1)), (MOST, MOST));
    let rates = |credit: &mut Credit| {
        (1..=100).fold((0, 0), |(one, two), step| {
            let now = 1 + step * REFILL_NS;
            (one + sent(credit, 1, now), two + sent(credit, 2, now))
        })
    };
    assert_eq!(rates(&mut credit), (1_000, 3_000));
}

#[test]
fn what_comes_to_results_is_not_limited() {
    let mut credit = Credit::default();
    for _ in 0..10_000 {
        assert!((0..8).all(|_| credit.spend(Tenant(1), 1, &WEIGHTS)));
        credit.earn(Tenant(1), 8);
    }
    assert_eq!(sent(&mut credit, 1, 1), MOST, "and there is no more to be had than that");
}
