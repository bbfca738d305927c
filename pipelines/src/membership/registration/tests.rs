use super::*;
use pascaline_aggregator::Region;

use crate::membership::{Command, JobKind, JobSpec, Refused, Secret};

const PORT: Mac = Mac([2, 0, 0, 0, 0, 0x10]);

fn membership() -> Membership {
    let registry = Registry { udp_port: 48864, address: [10, 0, 0, 254], slots: 64 };
    let kind = JobKind::Switchml { place: Region { first: 0, sets: 64 }, registry };
    let job = JobSpec { kind, dead_after: None, ..JobSpec::new(7, 2) };
    Membership::new(vec![job, JobSpec::new(8, 2)], Secret::new([1; 16]), 3)
}

fn worker(rank: u32) -> Registration {
    let last = u8::try_from(rank + 1).unwrap();
    Registration { rank, workers: 2, mac: Mac([2, 0, 0, 0, 0, last]), address: [10, 0, 0, last], size: 1 }
}

fn register(membership: &mut Membership, who: Registration) -> Result<Terms, NotRegistered> {
    membership.register(Duration::from_secs(1), 7, &who, PORT)
}

#[test]
fn rank_0_begins_and_all_complete_the_job() {
    let mut membership = membership();
    assert_eq!(register(&mut membership, worker(1)), Err(NotRegistered::NotBegun));
    let told = register(&mut membership, worker(0)).unwrap();
    assert_eq!((told.udp_port, told.mac, told.address), (48864, PORT, [10, 0, 0, 254]));
    assert!(!membership.status()[0].complete);
    assert_eq!(register(&mut membership, worker(1)), Ok(told));
    assert!(membership.status()[0].complete);
    let table = membership.table(|_| PORT);
    let (job, _) = table.foreign(48864).unwrap();
    assert_eq!((job.id, job.members().iter().flatten().count()), (7, 2));
    // Silence is no sign of anything.
    let later = membership.handle_timeout(Duration::from_secs(1000));
    assert_eq!((later.changed, later.events), (false, Vec::new()));
    assert!(membership.status()[0].complete);
    // Again: nobody of the generation before is a member any more.
    let before = membership.status()[0].epoch;
    register(&mut membership, worker(0)).unwrap();
    let status = &membership.status()[0];
    assert_eq!((status.joined, status.epoch), (1, before.wrapping_add(1)));
}

#[test]
fn a_job_that_an_operator_has_suspended_stays_so_until_the_reset() {
    let mut membership = membership();
    register(&mut membership, worker(0)).unwrap();
    register(&mut membership, worker(1)).unwrap();
    let order = |membership: &mut Membership, command| membership.command(Duration::from_secs(2), 7, command);
    for command in [Command::SetH(1), Command::Leave(1), Command::Help(5), Command::FBcast(5)] {
        assert_eq!(order(&mut membership, command), Err(Refused::SwitchMl), "{command:?}");
    }
    assert!(order(&mut membership, Command::Halt).unwrap().changed);
    for rank in [0, 1] {
        assert_eq!(register(&mut membership, worker(rank)), Err(NotRegistered::Halted));
    }
    assert!(membership.table(|_| PORT).get(7).unwrap().halted);
    order(&mut membership, Command::Reset).unwrap();
    assert_eq!(register(&mut membership, worker(1)), Err(NotRegistered::NotBegun));
    let table = membership.table(|_| PORT);
    let (job, _) = table.foreign(48864).expect("its clients may still send");
    assert!(job.switchml.is_none() && job.members().iter().all(Option::is_none));
    register(&mut membership, worker(0)).unwrap();
}

#[test]
fn who_cannot_register_changes_nothing() {
    let mut membership = membership();
    register(&mut membership, worker(0)).unwrap();
    let fan_in = 2;
    for (who, why) in [
        (Registration { workers: 3, ..worker(1) }, NotRegistered::FanIn { said: 3, fan_in }),
        (worker(2), NotRegistered::Rank { rank: 2, fan_in }),
        (Registration { size: 2, ..worker(1) }, NotRegistered::Size { code: 2 }),
        (Registration { size: 3, ..worker(1) }, NotRegistered::SizeDiffers),
        (Registration { rank: 1, ..worker(0) }, NotRegistered::Twice { other: 0 }),
    ] {
        assert_eq!(register(&mut membership, who), Err(why), "{who:?}");
    }
    for (mac, address) in [(Mac::BROADCAST, [10, 0, 0, 2]), (worker(1).mac, [224, 0, 0, 1])] {
        let who = Registration { mac, address, ..worker(1) };
        assert_eq!(register(&mut membership, who), Err(NotRegistered::NoHost { mac, address }));
    }
    let other = membership.register(Duration::ZERO, 8, &worker(0), PORT);
    assert_eq!(other, Err(NotRegistered::NoSuchJob { job: 8 }));
    assert_eq!(membership.status()[0].joined, 1);
}
