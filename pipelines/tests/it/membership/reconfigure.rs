//! Other jobs than before, while members are at work.

use pascaline_aggregator::{Order, Policy, Region};
use pascaline_pipelines::membership::{
    Admission, JobKind, JobSpec, Membership, Reconfigured, Registry, Secret, ServerMode,
};
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::Address;

use super::plane::{FIRST, Plane, secs, told};
use crate::common::appliance::kind;
use Reconfigured::{Added, Changed, Reformed, Removed};
use pascaline_testkit::Worker;

fn worker(job: u16, rank: u16) -> Worker {
    Worker { job, epoch: FIRST, ..Worker::new(rank, 2) }
}

/// Jobs 1 and 2 of two ranks each, all of which have joined.
fn plane() -> Plane {
    plane_of(JobSpec::new(1, 2))
}

/// The same with this job in place of the first.
fn plane_of(first: JobSpec) -> Plane {
    let membership = Membership::new(vec![first, JobSpec::new(2, 2)], Secret::NONE, FIRST);
    let mut plane = Plane { membership, now: secs(1000) };
    for job in [1, 2] {
        for rank in [0, 1] {
            plane.join(&worker(job, rank));
        }
        assert_eq!(plane.members(job), [0, 1]);
    }
    plane
}

fn epoch(membership: &Membership, job: u16) -> Option<u16> {
    membership.status().iter().find(|status| status.id == job).map(|status| status.epoch)
}

fn reconfigure(plane: &mut Plane, specs: &[JobSpec]) -> Vec<(u16, Reconfigured)> {
    plane.membership.reconfigure(plane.now, specs.to_vec(), None).into_iter().collect()
}

#[test]
fn jobs_that_stay_as_they_are_are_not_touched() {
    let mut plane = plane();
    let before = plane.membership.status();
    assert_eq!(reconfigure(&mut plane, &[JobSpec::new(1, 2), JobSpec::new(2, 2)]), []);
    assert_eq!(plane.membership.status(), before);
}

#[test]
fn a_job_comes_and_goes_without_the_others() {
    let mut plane = plane();
    let before = epoch(&plane.membership, 1);
    let done = reconfigure(&mut plane, &[JobSpec::new(1, 2), JobSpec::new(3, 2)]);
    assert_eq!(done, [(2, Removed), (3, Added)]);
    assert_eq!((epoch(&plane.membership, 1), plane.members(1)), (before, vec![0, 1]));
    plane.refuses(&worker(2, 0), Action::Join, Status::UnknownJob, 0, 2);
    assert_eq!(told(&plane.join(&worker(3, 0))).0, Status::Pending);
}

#[test]
fn a_job_that_comes_back_is_another_generation() {
    let mut plane = plane();
    let before = epoch(&plane.membership, 2).unwrap();
    reconfigure(&mut plane, &[JobSpec::new(1, 2)]);
    assert_eq!(reconfigure(&mut plane, &[JobSpec::new(1, 2), JobSpec::new(2, 2)]), [(2, Added)]);
    assert_eq!(epoch(&plane.membership, 2), Some(before.wrapping_add(1)));
    assert!(plane.members(2).is_empty());
}

#[test]
fn limits_change_under_members_that_go_on() {
    let mut plane = plane();
    let before = epoch(&plane.membership, 1);
    let limited = kind(Policy { quota: 16, ..Policy::default() }, ServerMode::None);
    let addresses: Vec<Address> = [0, 1].map(|rank| worker(1, rank).address).to_vec();
    for spec in [
        JobSpec { kind: limited, ..JobSpec::new(1, 2) },
        JobSpec { window: 8, dead_after: None, ..JobSpec::new(1, 2) },
        JobSpec { admitted: Some(addresses), ..JobSpec::new(1, 2) },
    ] {
        assert_eq!(reconfigure(&mut plane, &[spec.clone(), JobSpec::new(2, 2)]), [(1, Changed)], "{spec:?}");
        assert_eq!((epoch(&plane.membership, 1), plane.members(1)), (before, vec![0, 1]));
        let table = plane.membership.table(|_| pascaline_wire::Mac([2; 6]));
        let job = table.get(1).unwrap();
        assert_eq!((job.policy, job.needed, job.members().len()), (spec.kind.policy(spec.window), 2, 2));
    }
}

const PLACE: Region = Region { first: 0, sets: 8 };

/// A job in slots of its own, for packets that are so much longer than its workers'.
fn whole(longer: u16) -> JobSpec {
    let (kind, max_payload) =
        (JobKind::Region { place: PLACE, order: Order::Arrival }, worker(1, 0).payload + longer);
    JobSpec { kind, max_payload, ..JobSpec::new(1, 2) }
}

/// The same whose results may lack ranks.
fn early(needed: u16, longer: u16) -> JobSpec {
    JobSpec { kind: JobKind::Early { place: PLACE, needed, partial_after: None }, ..whole(longer) }
}

#[test]
fn results_may_come_to_lack_ranks_where_their_names_fit() {
    for (spec, what, needed) in
        [(early(1, 16), Changed, 1), (early(2, 16), Changed, 2), (early(1, 8), Reformed, 1)]
    {
        let mut plane = plane_of(whole(16));
        assert_eq!(reconfigure(&mut plane, &[spec, JobSpec::new(2, 2)]), [(1, what)]);
        let members = if what == Changed { vec![0, 1] } else { vec![] };
        assert_eq!((plane.members(1), plane.table().get(1).unwrap().needed), (members, needed));
    }
}

#[test]
fn what_under_way_could_not_survive_begins_the_next_generation() {
    let nobody = Address::from_v4([192, 0, 2, 1]);
    let place = Region { first: 0, sets: 8 };
    let by_rank = kind(Policy { order: Order::Rank, ..Policy::default() }, ServerMode::None);
    let registry = Registry { udp_port: 48_879, address: [10, 77, 0, 254], slots: 8 };
    let payload = worker(1, 0).payload;
    for spec in [
        JobSpec::new(1, 3),
        JobSpec::new(1, 1),
        JobSpec { kind: JobKind::Region { place, order: Order::Arrival }, ..JobSpec::new(1, 2) },
        JobSpec { kind: by_rank, ..JobSpec::new(1, 2) },
        JobSpec { kind: kind(Policy::default(), ServerMode::Embedded), ..JobSpec::new(1, 2) },
        JobSpec { kind: JobKind::Updates { server: ServerMode::None }, ..JobSpec::new(1, 2) },
        JobSpec { kind: JobKind::Switchml { place, registry }, ..JobSpec::new(1, 2) },
        JobSpec { max_payload: payload - 8, ..JobSpec::new(1, 2) },
        JobSpec { admitted: Some(vec![nobody; 2]), ..JobSpec::new(1, 2) },
    ] {
        let mut plane = plane();
        let (one, two) = (epoch(&plane.membership, 1).unwrap(), epoch(&plane.membership, 2));
        let what = reconfigure(&mut plane, &[spec.clone(), JobSpec::new(2, 2)]);
        assert_eq!(what, [(1, Reformed)], "{spec:?}");
        assert_eq!(epoch(&plane.membership, 1), Some(one.wrapping_add(1)), "{spec:?}");
        assert_eq!(
            (plane.members(1), plane.members(2), epoch(&plane.membership, 2)),
            (vec![], vec![0, 1], two)
        );
        let status = plane.membership.status();
        assert_eq!((status[0].fan_in, status[0].complete), (spec.fan_in, false));
    }
}

/// What members have said holds until the configuration says something else.
#[test]
fn a_threshold_that_a_member_has_set_gives_way_to_another_one_only() {
    let mut plane = plane_of(whole(16));
    let mut reloaded = |spec: &JobSpec| {
        assert_eq!(reconfigure(&mut plane, &[spec.clone(), JobSpec::new(2, 2)]), [(1, Changed)], "{spec:?}");
        let needed = plane.table().get(1).unwrap().needed;
        assert_eq!(plane.ask(&worker(1, 0), Action::SetH, 1, 0).control.status, Status::Ok);
        assert_eq!(plane.table().get(1).unwrap().needed, 1);
        needed
    };
    assert_eq!(reloaded(&early(2, 16)), 2);
    assert_eq!(reloaded(&JobSpec { share: 2, ..early(2, 16) }), 1, "as it was set");
    assert_eq!(reloaded(&early(3, 16)), 2, "as it is configured");
}

#[test]
fn formed_jobs_stay_while_they_are_admitted() {
    let admission = |jobs| Admission {
        jobs,
        from: vec!["10.77.0.0/24".parse().unwrap()],
        max_jobs: 4,
        max_jobs_per_host: 4,
        max_fan_in: 16,
        like: JobSpec::new(0, 0),
        idle: secs(600),
    };
    let mut plane = Plane::with_admission(vec![JobSpec::new(1, 2)], admission(1000..=1999));
    for job in [1000, 1500] {
        plane.join(&worker(job, 0));
    }
    let specs = || vec![JobSpec::new(1, 2)];
    let mut reconfigure = |specs, admission| -> Vec<_> {
        let plane = &mut plane;
        plane.membership.reconfigure(plane.now, specs, admission).into_iter().collect()
    };
    assert_eq!(reconfigure(specs(), Some(admission(1000..=1999))), []);
    assert_eq!(reconfigure(specs(), Some(admission(1000..=1200))), [(1500, Removed)]);
    // A configured job takes the number.
    let both = vec![JobSpec::new(1, 2), JobSpec::new(1000, 2)];
    assert_eq!(reconfigure(both.clone(), Some(admission(1000..=1200))), [(1000, Reformed)]);
    assert_eq!(reconfigure(both, None), []);
    assert_eq!(reconfigure(specs(), None), [(1000, Removed)]);
}
