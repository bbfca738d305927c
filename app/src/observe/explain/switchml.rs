//! Remedies where the workers are SwitchML's clients: these register at a controller, name no job, send what
//! their own configuration says, and neither leave nor continue with fewer.

use super::Reason;

const START: &str = "start all workers again, rank 0 among them, with the job's `controller` as \
                     controller_ip and controller_port; the log names ranks that wait there";

/// Gives a reason the remedy that such workers can follow.
pub(super) fn adapt(reason: &mut Reason) {
    let remedy = match &*reason.kind {
        "not-member" => START,
        "halted" => "`pascaline job reset JOB`, then start all workers again, rank 0 among them",
        "straggler" | "rank-silent" | "rank-left" | "rank-lost" | "rank-overtaken" => {
            "look at that worker and its link; if it is gone, start all workers again, rank 0 among them"
        }
        "rank-blocked" => "let its long packets pass (firewall), or raise the MTU on its way",
        "outside-window" => {
            "raise the job's window, and slots in [jobs.switchml] where they are given, to the clients' \
             max_outstanding_packets, with several threads to twice that; or lower theirs"
        }
        "mismatch" => {
            "start all workers again, rank 0 among them, with the same settings; if it comes back, raise \
             the clients' timeout: they send a wrong packet when a result is late"
        }
        "contention" => "lower the clients' max_outstanding_packets, or give the appliance more lcores",
        "given-up" => "it is as it should be after a restart of workers",
        _ => return,
    };
    remedy.clone_into(&mut reason.remedy);
}

#[cfg(test)]
mod tests;
