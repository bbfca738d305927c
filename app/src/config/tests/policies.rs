//! Profiles, the keys that override them, and regions.

use pascaline_aggregator::{ConflictPolicy, Order, Policy, Region};

use super::*;
use pascaline_pipelines::membership::OnDeath;

/// The good configuration with these keys for its job, of 2 ranks and without a list of members.
fn job(keys: &str) -> JobConfig {
    let mut jobs = parse(&with_keys(keys)).unwrap_or_else(|error| panic!("{keys}: {error}")).jobs;
    jobs.remove(0)
}

fn with_keys(keys: &str) -> String {
    GOOD.replacen("members = [\"10.77.0.1\", \"10.77.0.2\"]", keys, 1)
}

/// 4,096 slots in sets of 4, of which the region of this job takes twice its window of 512, at the end.
const REGION: Option<Region> = Some(Region { first: 768, sets: 256 });

/// What jobs are that share the pool: as in DSA.
const SHARING: Policy = Policy {
    conflict: ConflictPolicy::Preempt,
    order: Order::Arrival,
    region: None,
    quota: 0,
    partial_after: 0,
    server: true,
};

#[test]
fn without_a_key_a_job_has_a_region() {
    let job = job("");
    assert_eq!(job.policy, Policy { region: REGION, ..Policy::default() });
    assert_eq!((job.needed, job.window, job.partials), (2, 512, false));
    assert_eq!((job.dead_after, job.on_death), (Some(Duration::from_secs(20)), OnDeath::Fail));
}

/// 4,096 slots, regions of 1,024.
#[test]
fn jobs_share_the_pool_if_it_has_no_room_for_all_their_regions() {
    let jobs = |count: u16, more: &str| {
        let text = (1..count).map(|id| format!("\n[[jobs]]\nid = {}\nfan_in = 2\n", id + 7));
        let jobs = parse(&format!("{GOOD}{}{more}", text.collect::<String>())).unwrap().jobs;
        jobs.into_iter().take(usize::from(count)).map(|job| job.policy).collect::<Vec<_>>()
    };
    let first = |region: u32| Some(Region { first: 1024 - 256 * (region + 1), sets: 256 });
    let regions = jobs(4, "");
    assert_eq!(regions.iter().map(|policy| policy.region).collect::<Vec<_>>(), [0, 1, 2, 3].map(first));
    assert!(regions.iter().all(|policy| !policy.server));
    assert_eq!(jobs(5, ""), [SHARING; 5], "there is room for four only");
    // With others who share it, half of the pool is for these.
    let shared = "\n[[jobs]]\nid = 900\nfan_in = 2\naddressing = \"shared\"\n";
    let joins = "\n[admission]\njobs = \"1000\"\nfrom = [\"::/0\"]\n";
    for others in [shared, joins] {
        assert_eq!(jobs(2, others).iter().map(|policy| policy.region).collect::<Vec<_>>(), [0, 1].map(first));
        assert_eq!(jobs(3, others), [SHARING; 3], "{others}");
    }
    // One that has a region in any case takes its part, and keeps it.
    let region = "\n[[jobs]]\nid = 901\nfan_in = 2\naddressing = \"region\"\nregion_slots = 2048\n";
    assert_eq!(jobs(2, region)[0].region, first(0));
    assert_eq!(jobs(3, region), [SHARING; 3]);
    let none = Policy { conflict: ConflictPolicy::FirstCome, server: false, ..SHARING };
    assert_eq!(jobs(5, "\n[ps]\nmode = \"none\"\n"), [none; 5], "who loses sends again");
}

#[test]
fn a_single_key_may_imply_where_the_place_is() {
    assert_eq!(job("addressing = \"shared\"").policy, SHARING);
    assert_eq!(job("conflict = \"always\"").policy, Policy { conflict: ConflictPolicy::Always, ..SHARING });
    let region = |sets| Some(Region { first: 1024 - sets, sets });
    assert_eq!(job("region_slots = 64").policy.region, region(16));
    assert_eq!((job("threshold = 1").policy.region, job("threshold = 1").needed), (region(256), 1));
    assert_eq!(job("partial_after = \"1ms\"").policy.region, region(256));
    let plain = Policy { conflict: ConflictPolicy::FirstCome, server: false, ..SHARING };
    assert_eq!(job("addressing = \"shared\"\nserver = false").policy, plain);
}

#[test]
fn each_profile_is_its_papers_system() {
    let default = Policy::default();
    let cases = [
        ("dsa", Policy { conflict: ConflictPolicy::Preempt, server: true, ..default }, false),
        ("atp", Policy { server: true, ..default }, false),
        ("switchml", Policy { region: REGION, ..default }, false),
        ("iswitch", Policy { region: REGION, ..default }, true),
        ("panama", Policy { region: REGION, ..default }, true),
    ];
    for (profile, policy, partials) in cases {
        let job = job(&format!("profile = {profile:?}"));
        assert_eq!((job.policy, job.partials, job.needed), (policy, partials, 2), "{profile}");
    }
}

#[test]
fn single_keys_override_the_profile() {
    let dsa = |keys: &str| job(&format!("profile = \"dsa\"\n{keys}"));
    assert_eq!(dsa("conflict = \"first-come\"").policy.conflict, ConflictPolicy::FirstCome);
    assert_eq!(dsa("conflict = \"always\"").policy.conflict, ConflictPolicy::Always);
    assert_eq!(dsa("conflict = \"coin\"").policy.conflict, ConflictPolicy::Coin);
    assert!(!dsa("server = false").policy.server);
    assert_eq!(dsa("addressing = \"region\"").policy.region, REGION);
    assert_eq!(dsa("quota = 100").policy.quota, 100);
    assert_eq!((dsa("").share, dsa("share = 3").share), (1, 3));
    assert_eq!(job("profile = \"switchml\"\naddressing = \"shared\"").policy, Policy::default());
    assert_eq!(
        job("conflict = \"preempt\"").policy.conflict,
        ConflictPolicy::Preempt,
        "without a profile, too"
    );
}

#[test]
fn what_excludes_partials_ends_them() {
    let iswitch = |keys: &str| job(&format!("profile = \"iswitch\"\n{keys}"));
    assert!(iswitch("").partials);
    for keys in ["order = \"rank\"", "server = true", "addressing = \"shared\""] {
        assert!(!iswitch(keys).partials, "{keys}");
    }
    assert!(job("profile = \"switchml\"\nthreshold = 1").partials, "asked for");
}

#[test]
fn a_threshold_is_a_count_or_a_share() {
    let needed = |fan_in: u16, threshold: &str| {
        let text = with_keys(&format!("profile = \"panama\"\nthreshold = {threshold}"));
        let text = text.replacen("fan_in = 2", &format!("fan_in = {fan_in}"), 1);
        parse(&text).unwrap_or_else(|error| panic!("{error}")).jobs[0].needed
    };
    assert_eq!((needed(4, "1"), needed(4, "4")), (1, 4));
    // As soon as 94 % are there: rounded up.
    assert_eq!([16, 48, 96].map(|fan_in| needed(fan_in, "0.94")), [16, 46, 91]);
    assert_eq!([16, 48, 96].map(|fan_in| needed(fan_in, "0.88")), [15, 43, 85]);
    for fan_in in (50..=1000).step_by(50) {
        assert_eq!(needed(fan_in, "0.94"), fan_in / 50 * 47, "exactly that share of {fan_in}");
    }
    assert_eq!((needed(7, "1.0"), needed(7, "0.001")), (7, 1));
}

#[test]
fn the_window_gets_narrower_the_more_ranks_there_are() {
    let window = |fan_in: u16, more: &str| {
        let text = with_keys(more).replacen("fan_in = 2", &format!("fan_in = {fan_in}"), 1);
        parse(&text).unwrap().jobs[0].window
    };
    assert_eq!([1, 64, 65, 128, 1024].map(|fan_in| window(fan_in, "")), [512, 512, 504, 256, 32]);
    assert_eq!(window(1024, "window = 64"), 64, "unless it is written");
    assert_eq!(window(2, "addressing = \"region\"\nregion_slots = 64"), 32, "half of the region");
    assert_eq!(window(2, "addressing = \"region\"\nregion_slots = 64\nwindow = 64"), 64);
}

#[test]
fn a_partial_that_keeps_its_packets_is_bounded_by_a_quota() {
    assert_eq!(
        job("order = \"rank\"").policy,
        Policy { order: Order::Rank, quota: 512, region: REGION, ..Policy::default() }
    );
    assert_eq!(job("order = \"rank\"\nwindow = 100").policy.quota, 100);
    assert_eq!(job("order = \"rank\"\nquota = 7").policy.quota, 7);
}

#[test]
fn death_may_be_ruled_out_and_need_not_be_fatal() {
    assert_eq!(job("dead_after = \"0s\"").dead_after, None);
    assert_eq!(job("dead_after = \"300ms\"").dead_after, Some(Duration::from_millis(300)));
    assert_eq!(job("on_death = \"continue\"").on_death, OnDeath::Continue);
}

#[test]
fn partials_may_be_sent_out_after_a_time() {
    let job = job("profile = \"iswitch\"\npartial_after = \"10ms\"");
    assert_eq!(job.policy.partial_after, 10_000_000);
}

#[test]
fn regions_are_laid_out_from_the_end_in_the_order_of_the_jobs() {
    let job = |id: u16, rest: &str| format!("\n[[jobs]]\nid = {id}\nfan_in = 2\n{rest}\n");
    let region = |slots: u32| format!("addressing = \"region\"\nregion_slots = {slots}");
    let text = [
        GOOD.to_owned(),
        job(1, &region(256)),
        job(2, ""),
        job(3, &region(4)),
        job(4, "profile = \"switchml\"\nwindow = 300"),
    ]
    .concat();
    let config = parse(&text).unwrap();
    let regions: Vec<Option<Region>> = config.jobs.iter().map(|job| job.policy.region).collect();
    let at = |first, sets| Some(Region { first, sets });
    assert_eq!(regions, [at(768, 256), at(704, 64), at(448, 256), at(447, 1), at(191, 256)]);
    assert_eq!(config.shared_sets, 191);
    let windows: Vec<u16> = config.jobs.iter().map(|job| job.window).collect();
    assert_eq!(windows, [512, 128, 512, 2, 300]);
}

#[test]
fn every_mistake_in_a_policy_names_its_place() {
    let region = "addressing = \"region\"\n";
    let cases: &[(&str, &str, &str)] = &[
        ("profile = \"dsx\"", "\"dsx\"", "not a choice"),
        ("addressing = \"own\"", "\"own\"", "not a choice"),
        ("conflict = \"fifo\"", "\"fifo\"", "not a choice"),
        ("order = \"any\"", "\"any\"", "not a choice"),
        ("on_death = \"cry\"", "\"cry\"", "not a choice"),
        ("dead_after = \"soon\"", "\"soon\"", ""),
        ("server = \"yes\"", "\"yes\"", "true or false"),
        ("addressing = \"shared\"\nregion_slots = 64", "64", "in the shared pool"),
        ("profile = \"atp\"\nregion_slots = 64", "64", "in the shared pool"),
        (&format!("{region}region_slots = 100"), "100", "cannot be a region"),
        (&format!("{region}region_slots = 2"), "2", "cannot be a region"),
        (&format!("{region}region_slots = 8192"), "8192", "4096 slots of the pool are left"),
        (&format!("{region}window = 4000"), "7", "a region of 8192 slots does not fit"),
        (&format!("{region}region_slots = 64\nwindow = 65"), "65", "out of range"),
        (&format!("{region}region_slots = 64\nquota = 65"), "65", "out of range"),
        ("quota = 4097", "4097", "out of range"),
        ("share = 0", "0", "share = 0 is out of range"),
        ("share = 1001", "1001", "out of range"),
        ("order = \"rank\"\nquota = 0", "0", "out of range"),
        ("addressing = \"shared\"\nthreshold = 1", "1", "needs a region"),
        ("server = true\nthreshold = 1", "1", "exclude each other"),
        ("profile = \"dsa\"\nthreshold = 0.5", "0.5", "needs a region"),
        ("profile = \"atp\"\npartial_after = \"1ms\"", "\"1ms\"", "needs a region"),
        (&format!("{region}partial_after = \"0s\""), "\"0s\"", "zero"),
        (&format!("{region}server = true\nthreshold = 1"), "1", "exclude each other"),
        (&format!("{region}order = \"rank\"\nthreshold = 1"), "1", "exclude each other"),
        (&format!("{region}order = \"rank\"\npartial_after = \"1ms\""), "\"1ms\"", "exclude each other"),
        (&format!("{region}threshold = 1\nquota = 8"), "8", "exclude each other"),
        ("profile = \"iswitch\"\nquota = 9", "9", "exclude each other"),
        (&format!("{region}threshold = 0"), "0", "out of range"),
        (&format!("{region}threshold = 3"), "3", "out of range"),
        (&format!("{region}threshold = -1"), "-1", "out of range"),
        (&format!("{region}threshold = 0.0"), "0.0", "out of range"),
        (&format!("{region}threshold = 1.01"), "1.01", "out of range"),
        (&format!("{region}threshold = \"most\""), "\"most\"", "out of range"),
        (&format!("{region}region_slots = 4096\n[[jobs]]\nid = 8\nfan_in = 2"), "8", "leave no slot"),
    ];
    for (keys, at, says) in cases {
        let (message, found) = broken("members = [\"10.77.0.1\", \"10.77.0.2\"]", keys);
        assert!(message.contains(says), "{keys}: {message}");
        assert!(found.starts_with(at), "{keys}: the place is at {found:?}: {message}");
        assert!(message.contains("remedy: "), "{message}");
    }
}
