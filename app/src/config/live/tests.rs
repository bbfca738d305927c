use std::path::Path;

use super::*;

const BASE: &str = "[appliance]\naddresses = [\"10.77.0.254\"]\n[dataplane]\nmain_core = 0\ncores = [1]\n\
                    [[ports]]\nname = \"p0\"\ndevice = \"net_null0\"\n[pool]\nslots = 1024\n";

fn config(jobs: &str) -> Config {
    Config::parse(Path::new("test.toml"), &format!("{BASE}{jobs}")).unwrap()
}

fn region(id: u16, slots: u32) -> String {
    format!("[[jobs]]\nid = {id}\nfan_in = 2\nwindow = 4\n[jobs.region]\nslots = {slots}\n")
}

fn shared(id: u16, more: &str) -> String {
    let server = if more.contains("server") { "" } else { "server = false\n" };
    format!(
        "[[jobs]]\nid = {id}\nfan_in = 2\nwindow = 64\nkind = \"shared\"\n[jobs.shared]\n{server}{more}\n"
    )
}

fn regions(config: &Config) -> Vec<(u16, Region)> {
    config.jobs.iter().filter_map(|job| Some((job.spec.id, job.spec.kind.place()?))).collect()
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
fn what_was_not_made_for_more_says_so() {
    let start = config(&[region(1, 64), shared(2, "")].concat());
    for (jobs, says) in [
        ([region(1, 128), shared(2, "")].concat(), "no room for a region of 128 slots in the 64"),
        ([region(1, 64), region(3, 4)].concat(), "no room for a region of 4 slots"),
        (shared(2, "server = true"), "started without a parameter server"),
        (shared(2, "").replace("fan_in = 2\nwindow = 64", "fan_in = 65\nwindow = 8"), "65 ranks"),
        (shared(2, "").replace("fan_in = 2\nwindow = 64", "fan_in = 64\nwindow = 512"), "packet buffers"),
        (shared(2, "").replace("window = 64", "window = 1024"), "the 960 slots that are shared"),
    ] {
        let misfit = config(&jobs).settle(&start, &start).unwrap_err();
        assert!(misfit.message.contains(says) && misfit.remedy.contains("restart"), "{jobs}: {misfit}");
    }
    config(&[region(1, 64), shared(2, "quota = 32"), shared(3, "")].concat()).settle(&start, &start).unwrap();
}

/// Their queues are made at the start, for jobs up to the highest number there.
#[test]
fn updates_need_the_queues_of_the_start() {
    let ps = "[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\n";
    let olaf = |id| format!("[[jobs]]\nid = {id}\nfan_in = 2\nkind = \"updates\"\n");
    let start = config(&[olaf(300), ps.to_owned()].concat());
    for jobs in [olaf(300), olaf(7), [olaf(300), shared(2, "")].concat()] {
        let mut next = config(&[jobs, ps.to_owned()].concat());
        next.settle(&start, &start).unwrap();
    }
    let refused = |start: &Config, jobs: String| {
        let mut next = config(&[jobs, ps.to_owned()].concat());
        next.settle(start, start).unwrap_err().message
    };
    assert!(refused(&start, olaf(301)).contains("made for jobs up to 300"));
    let none = config(&[shared(2, ""), ps.to_owned()].concat());
    assert!(refused(&none, olaf(1)).contains("no queues of updates"));
}

#[test]
fn what_listens_to_switchml_is_there_from_the_start_on() {
    let switchml = |port| {
        format!(
            "[[jobs]]\nid = 5\nfan_in = 2\nwindow = 4\nkind = \"switchml\"\n[jobs.switchml]\n\
             controller = \"192.0.2.1:{port}\"\n"
        )
    };
    let start = config(&switchml(50099));
    config(&[switchml(50099), shared(2, "")].concat()).settle(&start, &start).unwrap();
    for (start, jobs) in [(&start, switchml(50098)), (&config(&shared(2, "")), switchml(50099))] {
        let misfit = config(&jobs).settle(start, start).unwrap_err();
        assert!(misfit.message.contains("listened at from the start on"), "{misfit}");
    }
}

#[test]
fn jobs_may_be_admitted_where_no_server_was_started() {
    let start = config("[[jobs]]\nid = 1\nfan_in = 2\nwindow = 64\n");
    let mut next = config(
        "[[jobs]]\nid = 1\nfan_in = 2\nwindow = 64\n[admission]\njobs = \"1000-1009\"\n\
         from = [\"10.77.0.0/24\"]\nmax_jobs = 1\nmax_fan_in = 2\n",
    );
    assert!(next.admission.as_ref().unwrap().like.kind.policy(0).server && !start.embeds_server());
    next.settle(&start, &start).unwrap();
    let policy = next.admission.as_ref().unwrap().like.kind.policy(0);
    assert_eq!((policy.server, policy.conflict), (false, ConflictPolicy::FirstCome));
}
