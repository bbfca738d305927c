use super::*;

/// Ways that each of some tenants is guaranteed, over many sets; and in each set, together.
fn over_sets(shares: &Shares, tenants: u8, ways: usize) -> Vec<u32> {
    let mut sums = vec![0; usize::from(tenants)];
    for set in 0..4096 {
        let in_set: Vec<u32> = (0..tenants).map(|n| shares.guaranteed_ways(Tenant(n), set, ways)).collect();
        assert_eq!(in_set.iter().sum::<u32>() as usize, ways, "all ways of set {set} have an owner");
        sums.iter_mut().zip(in_set).for_each(|(sum, here)| *sum += here);
    }
    sums
}

#[test]
fn every_way_is_somebodys_and_over_all_sets_each_has_its_part() {
    for ways in [1, 2, 4, 8] {
        for tenants in [1_u8, 2, 3, 5, 8, 16, 200] {
            let shares = Shares::by_weight((0..tenants).map(|n| (Tenant(n), 3)));
            let fair = 4096.0 * ways as f64 / f64::from(tenants);
            for sum in over_sets(&shares, tenants, ways) {
                assert!((f64::from(sum) - fair).abs() <= 8.0 + fair / 50.0, "{sum} of {fair}, {tenants}");
            }
        }
    }
}

#[test]
fn weights_count() {
    let shares = Shares::by_weight([(Tenant(0), 3), (Tenant(1), 1), (Tenant(2), 0)]);
    let sums = over_sets(&shares, 3, 4);
    assert_eq!((sums[0], sums[1], sums[2]), (3 * 4096, 4096, 0));
    assert_eq!((shares.part(Tenant(0)), shares.part(Tenant(9))), (0.75, 0.0));
    assert_eq!(Shares::by_weight([]), Shares::NONE);
    assert_eq!(Shares::by_weight([(Tenant(1), 2), (Tenant(1), 2)]).part(Tenant(1)), 1.0);
}
