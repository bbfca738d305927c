//! The last word on where every packet went.

use pascaline_telemetry::{Counter, DropReason, Reading};
use tracing::{error, info};

/// Logs the account. False if it does not add up.
pub(super) fn report(total: &Reading) -> bool {
    let drops: Vec<String> = DropReason::ALL
        .iter()
        .filter(|&&reason| total.dropped(reason) > 0)
        .map(|&reason| format!("{}={}", reason.name(), total.dropped(reason)))
        .collect();
    let unaccounted = total.unaccounted();
    info!(
        received = total.get(Counter::Received),
        forwarded = total.get(Counter::Forwarded),
        absorbed = total.get(Counter::Absorbed),
        answered = total.get(Counter::Answered),
        dropped = total.dropped_total(),
        reasons = drops.join(" "),
        results = total.get(Counter::Completed),
        "{}",
        if unaccounted == 0 { "every packet accounted for" } else { "packets" }
    );
    if unaccounted != 0 {
        error!(%unaccounted, "packets are unaccounted for: this is a defect");
    }
    unaccounted == 0
}
