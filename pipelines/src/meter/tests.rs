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
