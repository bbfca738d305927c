use std::path::Path;

use super::*;

const BASE: &str = "[appliance]\naddresses = [\"10.77.0.254\"]\n[dataplane]\nmain_core = 0\ncores = [1]\n\
                    [[ports]]\nname = \"p0\"\ndevice = \"net_null0\"\n[pool]\nslots = 1024\n";

fn config(jobs: &str) -> Config {
    Config::parse(Path::new("test.toml"), &format!("{BASE}{jobs}")).unwrap()
}

fn region(id: u16, slots: u32) -> String {
    format!("[[jobs]]\nid = {id}\nfan_in = 2\nwindow = 4\naddressing = \"region\"\nregion_slots = {slots}\n")
}

fn shared(id: u16, more: &str) -> String {
    let server = if more.contains("server") { "" } else { "server = false\n" };
    format!("[[jobs]]\nid = {id}\nfan_in = 2\nwindow = 64\naddressing = \"shared\"\n{server}{more}\n")
}

fn regions(config: &Config) -> Vec<(u16, Region)> {
    config.jobs.iter().filter_map(|job| Some((job.id, job.policy.region?))).collect()
}

#[test]
fn regions_of_jobs_that_stay_do_not_move() {
    let start = config(&[region(1, 64), region(2, 128), region(3, 64)].concat());
    let [(_, one), (_, two), (_, three)] = regions(&start)[..] else { panic!("three") };
    // A start with job 3 alone would put it where job 1 is.
    let mut next = config(&region(3, 64));
    next.settle(&start, &start).unwrap();
    assert_eq!(regions(&next), [(3, three)]);
    assert_eq!(next.shared_sets, start.shared_sets);
    // The gap that the others have left is taken from its end.
    let mut more = config(&[region(4, 128), region(3, 64), region(5, 64)].concat());
    more.settle(&start, &next).unwrap();
    let end = one.first + one.sets;
    let placed =
        [(4, Region { first: end - 32, sets: 32 }), (3, three), (5, Region { first: two.first, sets: 16 })];
    assert_eq!(regions(&more), placed);
}

#[test]
fn a_job_that_leaves_its_place_open_shares_the_pool_where_no_region_is_left() {
    let open = |id| format!("[[jobs]]\nid = {id}\nfan_in = 2\nwindow = 64\n");
    let start = config(&open(1));
    let [(1, region)] = regions(&start)[..] else { panic!("a region by default") };
    let mut next = config(&[open(1), open(2)].concat());
    next.settle(&start, &start).unwrap();
    assert_eq!(regions(&next), [(1, region)]);
    assert_eq!(
        (next.jobs[1].policy.server, next.jobs[1].policy.conflict),
        (false, ConflictPolicy::FirstCome)
    );
    // A start with this many jobs would share the pool among all; jobs that run keep their regions.
    let mut many = config(&(1..=9).map(open).collect::<String>());
    assert_eq!(regions(&many), []);
    many.settle(&start, &next).unwrap();
    assert_eq!(regions(&many), [(1, region)]);
}

#[test]
fn what_was_not_made_for_more_says_so() {
    let start = config(&[region(1, 64), shared(2, "")].concat());
    for (jobs, says) in [
        ([region(1, 128), shared(2, "")].concat(), "no room for a region of 128 slots in the 64"),
        ([region(1, 64), region(3, 4)].concat(), "no room for a region of 4 slots"),
        (shared(2, "server = true"), "started without a parameter server"),
        ("[[jobs]]\nid = 2\nfan_in = 65\nwindow = 8\n".to_owned(), "65 ranks"),
        ("[[jobs]]\nid = 2\nfan_in = 64\nwindow = 512\n".to_owned(), "packet buffers"),
        ("[[jobs]]\nid = 2\nfan_in = 2\nwindow = 1024\n".to_owned(), "the 960 slots that are shared"),
    ] {
        let misfit = config(&jobs).settle(&start, &start).unwrap_err();
        assert!(misfit.message.contains(says) && misfit.remedy.contains("restart"), "{jobs}: {misfit}");
    }
    config(&[region(1, 64), shared(2, "quota = 32"), shared(3, "")].concat()).settle(&start, &start).unwrap();
}
