use super::*;

const MS: u64 = 1_000_000;
const BEGIN: u64 = 5_000 * MS;

/// Tokens that a bucket gives at a time.
fn tokens(bucket: &mut Bucket, now: u64, rate: Rate) -> usize {
    (0..1000).filter(|_| bucket.take(now, rate)).count()
}

#[test]
fn a_bucket_gives_its_burst_and_then_its_rate() {
    let mut bucket = Bucket::default();
    assert_eq!(tokens(&mut bucket, BEGIN, MEMBER), 64);
    assert_eq!(tokens(&mut bucket, BEGIN + 50 * MS, MEMBER), 10);
    assert_eq!(tokens(&mut bucket, BEGIN + 100_000 * MS, MEMBER), 64, "no more than it holds");
}

#[test]
fn a_bucket_is_no_emptier_than_empty_when_its_rate_rises() {
    let mut bucket = Bucket::default();
    let slow = Rate::per_second(1, 64);
    assert_eq!(tokens(&mut bucket, BEGIN, slow), 64);
    assert_eq!(tokens(&mut bucket, BEGIN, MEMBER), 0);
    assert_eq!(tokens(&mut bucket, BEGIN + 50 * MS, MEMBER), 10);
}

#[test]
fn one_psn_has_a_token_each_millisecond_and_all_of_them_have_their_burst() {
    let mut psns = PerPsn::default();
    let key = |psn| Key::new(1, 5, psn);
    assert!(psns.take(key(1), 10));
    assert!(!psns.take(key(1), 10 + MS - 1));
    assert!(psns.take(Key::new(2, 5, 1), 11) && psns.take(key(1), 10 + MS));
    let later = 5 * MS;
    assert_eq!((100..300).filter(|&psn| psns.take(key(psn), later)).count(), 64);
    assert!(psns.take(key(299), later + MS));
}

#[test]
fn refusals_keep_their_distance() {
    let mut refusals = Bucket::default();
    assert!(refusals.has(0, REFUSALS) && refusals.take(7, REFUSALS));
    assert!(!refusals.has(7 + MS - 1, REFUSALS) && refusals.has(7 + MS, REFUSALS));
}

/// A meter of two tenants' packets to the server, and how many each may send at a time.
fn two() -> (PerTenant, impl Fn(&mut PerTenant, u8, u64) -> u64) {
    let mut meter = PerTenant::default();
    let mut weights = [0; TENANTS];
    (weights[1], weights[2]) = (1, 3);
    meter.share_out(SERVER, &weights, 4);
    (meter, |meter, tenant, now| (0..).take_while(|_| meter.take(Tenant(tenant), now)).count() as u64)
}

#[test]
fn what_comes_to_nothing_is_sent_at_a_rate_by_share() {
    let (mut meter, sent) = two();
    assert_eq!((sent(&mut meter, 1, 1), sent(&mut meter, 2, 1)), (SERVER.burst, SERVER.burst));
    let rates = (1..=100).fold((0, 0), |(one, two), step| {
        let now = 1 + step * 10 * MS;
        (one + sent(&mut meter, 1, now), two + sent(&mut meter, 2, now))
    });
    assert_eq!(rates, (1_000, 3_000));
}

#[test]
fn what_comes_to_results_is_not_limited() {
    let (mut meter, sent) = two();
    for _ in 0..10_000 {
        assert!((0..8).all(|_| meter.take(Tenant(1), 1)));
        meter.earn(Tenant(1), 8);
    }
    assert_eq!(sent(&mut meter, 1, 1), SERVER.burst, "and there is no more to be had than that");
}
