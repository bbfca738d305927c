//! Kinds of jobs, their tables, and regions.

use pascaline_aggregator::{ConflictPolicy, Order, Policy, Region};

use super::*;
use crate::config::kind::Tag;
use pascaline_pipelines::membership::{JobKind, OnDeath};

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

/// DSA's, and by default what jobs are that share the pool.
const SHARING: Policy = Policy {
    conflict: ConflictPolicy::Preempt,
    order: Order::Arrival,
    region: None,
    quota: 0,
    partial_after: 0,
    server: true,
};

/// A job with a table of its kind.
fn kind(tag: &str, keys: &str) -> String {
    format!("kind = {tag:?}\n[jobs.{tag}]\n{keys}")
}

fn shared(keys: &str) -> Policy {
    job(&kind("shared", keys)).policy()
}

#[test]
fn without_a_key_a_job_has_a_region() {
    let job = job("");
    assert_eq!(job.policy(), Policy { region: REGION, ..Policy::default() });
    assert_eq!((job.needed(), job.spec.window, Tag::of(&job.spec.kind)), (2, 512, Tag::Region));
    assert_eq!((job.spec.dead_after, job.spec.on_death), (Some(Duration::from_secs(20)), OnDeath::Fail));
}

/// 4,096 slots, regions of 1,024: a job is what it says, or refused.
#[test]
fn a_region_that_has_no_room_is_refused() {
    let text = |count: u16| {
        let more = (1..count).map(|id| format!("\n[[jobs]]\nid = {}\nfan_in = 2\n", id + 7));
        format!("{GOOD}{}", more.collect::<String>())
    };
    let first = |region: u32| Some(Region { first: 1024 - 256 * (region + 1), sets: 256 });
    let config = parse(&text(4)).unwrap();
    assert_eq!(
        config.jobs.iter().map(|job| job.spec.kind.place()).collect::<Vec<_>>(),
        [0, 1, 2, 3].map(first)
    );
    let error = parse(&text(5)).unwrap_err();
    assert!(error.message().contains("a region of 1024 slots does not fit: 0 slots"), "{error}");
    assert!(error.remedy().contains("kind = \"dsa\""), "{error}");
    for others in [
        "[[jobs]]\nid = 900\nfan_in = 2\nkind = \"dsa\"\n",
        "[admission]\njobs = \"1000\"\nfrom = [\"::/0\"]\n",
    ] {
        assert!(parse(&format!("{}{others}", text(3))).is_ok(), "{others}");
        let error = parse(&format!("{}{others}", text(4))).unwrap_err();
        assert!(error.message().contains("leave no slot of the pool"), "{others}: {error}");
    }
}

#[test]
fn each_paper_is_a_kind_with_its_choices_made() {
    let atp = Policy { conflict: ConflictPolicy::FirstCome, ..SHARING };
    let own = Policy { region: REGION, ..Policy::default() };
    for (name, policy, tag) in [
        ("dsa", SHARING, Tag::Shared),
        ("atp", atp, Tag::Shared),
        ("iswitch", own, Tag::Early),
        ("panama", own, Tag::Early),
        ("region", own, Tag::Region),
    ] {
        let job = job(&format!("kind = {name:?}"));
        assert_eq!((job.policy(), Tag::of(&job.spec.kind), job.needed()), (policy, tag, 2), "{name}");
    }
    // Its table belongs to the kind that it is, and says what is different.
    let changed = job("kind = \"atp\"\n[jobs.shared]\nconflict = \"coin\"\nquota = 9");
    assert_eq!(changed.policy(), Policy { conflict: ConflictPolicy::Coin, quota: 9, ..SHARING });
    let panama = job("kind = \"panama\"\n[jobs.early]\nthreshold = 1");
    assert_eq!((panama.needed(), panama.policy()), (1, own));
}

#[test]
fn what_a_table_leaves_open_has_a_default() {
    assert_eq!(shared(""), SHARING);
    assert_eq!(shared("conflict = \"always\"").conflict, ConflictPolicy::Always);
    assert_eq!(shared("quota = 100").quota, 100);
    let plain = Policy { conflict: ConflictPolicy::FirstCome, server: false, ..SHARING };
    assert_eq!(shared("server = false"), plain, "a holder that loses would begin again");
    let preempts = Policy { server: false, ..SHARING };
    assert_eq!(shared("server = false\nconflict = \"preempt\""), preempts);
    let none = parse(&format!("{}\n[ps]\nmode = \"none\"\n", with_keys(&kind("shared", "")))).unwrap();
    assert_eq!(none.jobs[0].policy(), plain);
    let region = |sets| Some(Region { first: 1024 - sets, sets });
    assert_eq!(job(&kind("region", "slots = 64")).spec.kind.place(), region(16));
    let early = job(&kind("early", "slots = 64\nthreshold = 1\npartial_after = \"10ms\""));
    assert_eq!(
        (early.spec.kind.place(), early.needed(), early.policy().partial_after),
        (region(16), 1, 10_000_000)
    );
    let early = job(&kind("early", "")).spec.kind;
    assert!(matches!(early, JobKind::Early { needed: 2, partial_after: None, .. }), "{early:?}");
}

#[test]
fn a_threshold_is_a_count_or_a_share() {
    let needed = |fan_in: u16, threshold: &str| {
        let text = with_keys(&format!("kind = \"panama\"\n[jobs.early]\nthreshold = {threshold}"));
        let text = text.replacen("fan_in = 2", &format!("fan_in = {fan_in}"), 1);
        parse(&text).unwrap_or_else(|error| panic!("{error}")).jobs[0].needed()
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
        parse(&text).unwrap().jobs[0].spec.window
    };
    assert_eq!([1, 64, 65, 128, 1024].map(|fan_in| window(fan_in, "")), [512, 512, 504, 256, 32]);
    assert_eq!(window(1024, "window = 64"), 64, "unless it is written");
    assert_eq!(window(2, &kind("region", "slots = 64")), 32, "half of the region");
    assert_eq!(window(2, &format!("window = 64\n{}", kind("region", "slots = 64"))), 64);
}

#[test]
fn a_partial_that_keeps_its_packets_is_bounded_by_a_quota() {
    let rank = Policy { order: Order::Rank, quota: 512, ..Policy::default() };
    let region = |window: &str| job(&format!("{window}\n{}", kind("region", "order = \"rank\""))).policy();
    assert_eq!(region(""), Policy { region: REGION, ..rank });
    assert_eq!(region("window = 100").quota, 100);
    assert_eq!(shared("order = \"rank\"\nserver = false"), rank);
    assert_eq!(shared("order = \"rank\"\nquota = 7").quota, 7);
}

#[test]
fn death_may_be_ruled_out_and_need_not_be_fatal() {
    assert_eq!(job("dead_after = \"0s\"").spec.dead_after, None);
    assert_eq!(job("dead_after = \"300ms\"").spec.dead_after, Some(Duration::from_millis(300)));
    assert_eq!(job("on_death = \"continue\"").spec.on_death, OnDeath::Continue);
}

#[test]
fn regions_are_laid_out_from_the_end_in_the_order_of_the_jobs() {
    let job = |id: u16, rest: &str| format!("\n[[jobs]]\nid = {id}\nfan_in = 2\n{rest}\n");
    let region = |slots: u32| kind("region", &format!("slots = {slots}"));
    let text =
        [GOOD.to_owned(), job(1, &region(256)), job(2, ""), job(3, &region(4)), job(4, "window = 300")]
            .concat();
    let config = parse(&text).unwrap();
    let regions: Vec<Option<Region>> = config.jobs.iter().map(|job| job.spec.kind.place()).collect();
    let at = |first, sets| Some(Region { first, sets });
    assert_eq!(regions, [at(768, 256), at(704, 64), at(448, 256), at(447, 1), at(191, 256)]);
    assert_eq!(config.shared_sets, 191);
    let windows: Vec<u16> = config.jobs.iter().map(|job| job.spec.window).collect();
    assert_eq!(windows, [512, 128, 512, 2, 300]);
}

#[test]
fn every_mistake_in_a_policy_names_its_place() {
    let [region, shared, early] = ["region", "shared", "early"].map(|tag| move |keys: &str| kind(tag, keys));
    let cases: &[(&str, &str, &str)] = &[
        ("kind = \"dsx\"", "\"dsx\"", "not a choice"),
        ("kind = \"switch\"", "\"switch\"", "\"updates\", \"switchml\""),
        ("kind = \"shared\"", "\"shared\"", "without its table [jobs.shared]"),
        ("kind = \"early\"", "\"early\"", "without its table [jobs.early]"),
        ("kind = \"switchml\"", "\"switchml\"", "without its table [jobs.switchml]"),
        ("[jobs.shared]\nquota = 1", "[jobs.shared]", "[jobs.shared] in a job of kind \"region\""),
        ("kind = \"iswitch\"\n[jobs.region]\nslots = 64", "[jobs.region]", "in a job of kind \"early\""),
        (
            &format!("{}\n[jobs.early]\nthreshold = 1", shared("")),
            "[jobs.early]",
            "in a job of kind \"shared\"",
        ),
        (&shared("slots = 64"), "slots", "unknown field"),
        (&early("order = \"rank\""), "order", "unknown field"),
        (&region("server = true"), "server", "unknown field"),
        (&shared("conflict = \"fifo\""), "\"fifo\"", "not a choice"),
        (&region("order = \"any\""), "\"any\"", "not a choice"),
        ("on_death = \"cry\"", "\"cry\"", "not a choice"),
        ("dead_after = \"soon\"", "\"soon\"", ""),
        (&shared("server = \"yes\""), "\"yes\"", "true or false"),
        (&region("slots = 100"), "100", "cannot be a region"),
        (&region("slots = 2"), "2", "cannot be a region"),
        (&region("slots = 8192"), "8192", "4096 slots of the pool are left"),
        ("window = 4000", "7", "a region of 8192 slots does not fit"),
        (&format!("window = 65\n{}", region("slots = 64")), "65", "out of range"),
        (&shared("quota = 4097"), "4097", "out of range"),
        ("share = 0", "0", "share = 0 is out of range"),
        ("share = 1001", "1001", "out of range"),
        (&shared("order = \"rank\"\nquota = 0"), "0", "out of range"),
        (&early("partial_after = \"0s\""), "\"0s\"", "zero"),
        (&early("threshold = 0"), "0", "out of range"),
        (&early("threshold = 3"), "3", "out of range"),
        (&early("threshold = -1"), "-1", "out of range"),
        (&early("threshold = 0.0"), "0.0", "out of range"),
        (&early("threshold = 1.01"), "1.01", "out of range"),
        (&early("threshold = \"most\""), "\"most\"", "out of range"),
        (
            &format!("{}\n[[jobs]]\nid = 8\nfan_in = 2\nkind = \"dsa\"", region("slots = 4096")),
            "8",
            "leave no slot",
        ),
    ];
    for (keys, at, says) in cases {
        let (message, found) = broken("members = [\"10.77.0.1\", \"10.77.0.2\"]", keys);
        assert!(message.contains(says), "{keys}: {message}");
        assert!(found.starts_with(at), "{keys}: the place is at {found:?}: {message}");
        assert!(message.contains("remedy: "), "{message}");
    }
}
