//! Jobs that Joins have formed, in an operator's hands.

use pascaline_pipelines::membership::{Admission, Command, Event, JobSpec, OnDeath, Refused};
use pascaline_pipelines::{ControlPlane, Setup};
use pascaline_wire::UdpPorts;
use pascaline_wire::control::{Action, Status};

use super::admission::{admission, exists, worker};
use super::plane::{Plane, told};
use Action::Join;
use Status::{Ok, Pending};
use pascaline_testkit::{JOB, Worker};

fn formed(on_death: OnDeath) -> (Plane, [Worker; 3]) {
    let like = JobSpec { on_death, ..admission().like };
    let admission = Admission { like, ..admission() };
    let mut plane = Plane::with_admission(vec![JobSpec::new(JOB, 2)], admission);
    let mut workers = [0, 1, 2].map(|rank| worker(1000, rank, 3));
    plane.form(&mut workers);
    (plane, workers)
}

/// Two other workers, on another host, have the job as soon as they have joined.
fn two_form_it(plane: &mut Plane, epoch: u16) {
    let [a, b] = [0, 1].map(|rank| Worker { session: 99, ..worker(1000, rank, 2) }.v6());
    assert_eq!(told(&plane.ask(&a, Join, 0, 0)), (Pending, epoch, 0, 0));
    assert_eq!(told(&plane.ask(&b, Join, 0, 0)), (Ok, epoch, 0, 0));
    assert_eq!(plane.members(1000), [0, 1]);
}

#[test]
fn a_job_that_an_operator_has_reset_is_formed_with_another_number_of_ranks() {
    let (mut plane, _) = formed(OnDeath::Fail);
    assert!(plane.membership.command(plane.now, 1000, Command::Reset).unwrap().changed);
    assert_eq!(plane.members(1000), [0; 0]);
    two_form_it(&mut plane, 9);
}

#[test]
fn a_job_ends_with_the_last_rank_that_an_operator_takes_out() {
    let (mut plane, _) = formed(OnDeath::Fail);
    let leave = |plane: &mut Plane, rank| plane.membership.command(plane.now, 1000, Command::Leave(rank));
    let over = Event::Forgotten { job: 1000 };
    for rank in [0, 1] {
        let obeyed = leave(&mut plane, rank).unwrap();
        assert!(obeyed.changed && !obeyed.events.contains(&over), "{:?}", obeyed.events);
    }
    assert_eq!(leave(&mut plane, 1), Err(Refused::NotMember { rank: 1 }));
    let obeyed = leave(&mut plane, 2).unwrap();
    assert!(obeyed.changed && obeyed.events.contains(&over), "{:?}", obeyed.events);
    assert!(!exists(&plane, 1000));
    assert_eq!(leave(&mut plane, 2), Err(Refused::UnknownJob));
    two_form_it(&mut plane, 8);
}

#[test]
fn a_job_whose_other_ranks_go_on_without_one_stays() {
    let (mut plane, workers) = formed(OnDeath::Continue);
    let leave = |plane: &mut Plane, rank| plane.membership.command(plane.now, 1000, Command::Leave(rank));
    let obeyed = leave(&mut plane, 0).unwrap();
    assert!(obeyed.changed && exists(&plane, 1000), "{:?}", obeyed.events);
    assert_eq!(told(&plane.resume(&workers[1], 8)).0, Pending);
    assert!(leave(&mut plane, 1).is_ok() && exists(&plane, 1000), "rank 2 is expected");
}

#[test]
fn a_job_that_an_operator_has_dissolved_is_formed_anew() {
    let (plane, _) = formed(OnDeath::Fail);
    let setup = std::sync::Arc::new(Setup::new(Vec::new(), UdpPorts::single(1), Vec::new()));
    let (mut control, _lcores) = ControlPlane::new(plane.membership, setup, 1);
    assert!(control.dissolve(1000) && control.is_due(), "lcores need another table");
    assert!(!control.dissolve(1000) && !control.dissolve(JOB), "no such job, or a configured one");
}
