//! The tick: a time that divides all others.

use num_traits::ToPrimitive as _;

use super::Choice;
use crate::error::VerifyError;
use crate::scenario::{Exact, Scenario};

/// The longest run, in ticks: the area below an age of that length still fits.
pub(super) const MOST_TICKS: i128 = 1 << 60;

/// Ticks per ns, so that every time is a whole number of ticks.
pub(super) fn scale(scenario: &Scenario, choice: &Choice) -> Result<i128, VerifyError> {
    let mut times = vec![
        scenario.queue.service.clone(),
        scenario.reply.clone(),
        scenario.from.clone(),
        scenario.horizon.clone(),
    ];
    times.extend(choice.phases.iter().cloned());
    for (cluster, period) in scenario.clusters.iter().zip(&choice.periods) {
        times.push(period / Exact::from_integer(cluster.workers.into()));
    }
    let mut scale = 1_i128;
    for time in times {
        let denominator = time.denom().to_i128().ok_or(VerifyError::TooFine)?;
        scale = lcm(scale, denominator).filter(|scale| *scale < MOST_TICKS).ok_or(VerifyError::TooFine)?;
    }
    Ok(scale)
}

fn lcm(a: i128, b: i128) -> Option<i128> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}
