use super::*;

const STATUS: JobStatus = JobStatus {
    id: 1,
    fan_in: 2,
    joined: 2,
    epoch: 0,
    payload: 1024,
    multicast: None,
    needed: 2,
    lost: 0,
    complete: true,
    halted: false,
    broken: false,
    formed: false,
    server: crate::membership::ServerState::None,
    uplink: None,
};

#[test]
fn each_state_has_a_name_of_its_own() {
    for (at, state) in JobState::ALL.iter().enumerate() {
        assert!(JobState::ALL[..at].iter().all(|other| other.name() != state.name()), "{state:?}");
    }
}

#[test]
fn the_membership_alone_names_the_state_for_the_admin_api() {
    let name = |status: JobStatus| status.state().admin_name();
    let gone = JobStatus { joined: 0, complete: false, ..STATUS };
    assert_eq!(name(STATUS), "running");
    assert_eq!(name(JobStatus { lost: 1, joined: 1, ..STATUS }), "running");
    assert_eq!(name(JobStatus { joined: 1, complete: false, ..STATUS }), "forming");
    assert_eq!(name(gone), "idle");
    assert_eq!(name(JobStatus { halted: true, ..gone }), "halted");
    assert_eq!(name(JobStatus { halted: true, broken: true, ..gone }), "broken");
}

#[test]
fn traffic_tells_a_quiet_job_from_a_running_one_and_a_finished_one_from_an_empty_one() {
    let gone = JobStatus { joined: 0, complete: false, halted: true, lost: 1, ..STATUS };
    assert_eq!(gone.state_with_traffic(true, true), JobState::Finished);
    assert_eq!(gone.state_with_traffic(false, true), JobState::Empty);
    assert_eq!(STATUS.state_with_traffic(true, true), JobState::Running);
    assert_eq!(STATUS.state_with_traffic(true, false), JobState::Quiet);
    let lost = JobStatus { lost: 1, halted: true, ..STATUS };
    assert_eq!(lost.state_with_traffic(true, true), JobState::Lost);
}
