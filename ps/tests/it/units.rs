//! The parts by themselves.

use core::time::Duration;

use pascaline_ps::Config;
use pascaline_ps::timeout::Estimator;

use crate::packets::ms;

#[test]
fn the_timeout_is_that_of_rfc_6298_with_dsas_floor() {
    let mut estimator = Estimator::new(&Config::default());
    assert_eq!(estimator.timeout(0), ms(20));
    estimator.on_sample(ms(8));
    assert_eq!(estimator.timeout(0), ms(24), "R + 4 × R / 2");
    estimator.on_sample(ms(16));
    // Variation 3/4 × 4 + 1/4 × 8 = 5, smoothed 7/8 × 8 + 1/8 × 16 = 9.
    assert_eq!((estimator.timeout(0), estimator.timeout(1)), (ms(29), ms(58)));
    assert_eq!(estimator.timeout(u32::MAX), Duration::from_secs(1));
    for _ in 0..200 {
        estimator.on_sample(Duration::from_micros(3));
    }
    assert_eq!((estimator.timeout(0), estimator.timeout(3)), (ms(1), ms(8)));
    estimator.on_sample(Duration::MAX);
    assert_eq!(estimator.timeout(0), Duration::from_secs(1));
}
