//! Jobs that send updates, and the queues in front of ports.

use core::num::NonZeroU64;

use pascaline_queue::{Combine, Discipline};

use super::*;

const PARENT: &str = "{ address = \"10.78.0.254\", rank = 1, ranks = 2, mac = \"02:00:00:00:00:fe\" }";
const PS: &str = "[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\n";

fn job(rest: &str) -> String {
    format!("{GOOD}\n[[jobs]]\nid = 300\nfan_in = 3\nkind = \"updates\"\n{rest}\n{PS}")
}

/// The same with a queue in front of the first port.
fn queue(rest: &str) -> String {
    job("").replacen("veth0\"\n", &format!("veth0\"\n[ports.queue]\n{rest}\n"), 1)
}

#[test]
fn ports_have_queues_only_if_a_job_sends_updates() {
    assert_eq!(parse(GOOD).unwrap().port_queues(), None);
    let config = parse(&job("[jobs.updates]\nparameters = 350")).unwrap();
    assert_eq!((config.jobs[0].spec.kind.mode(), config.jobs[1].spec.kind.mode()), (Mode::Sync, Mode::Olaf));
    assert!(config.jobs[1].policy().server, "it has one");
    // 1,430 bytes over IPv6, less 25 of trailer, in whole 8-byte elements.
    assert_eq!((config.max_payload(), config.max_update()), (1424, 1400));
    let queues = config.port_queues().unwrap();
    assert_eq!(queues.len(), 2, "the server may be behind either port");
    for PortQueue { queue, rate } in queues {
        assert_eq!((queue.clusters, queue.segment_len, queue.segments, rate), (301, 1400, 8, None));
    }
    let (sync, olaf) = (parse(GOOD).unwrap(), config);
    assert_eq!(olaf.kept_packets(), sync.kept_packets(), "it keeps nothing in the pool");
}

/// Holds R15.2 of protocol.md.
#[test]
fn a_jumbo_packet_holds_more_than_2048_floats() {
    let text = job("[jobs.updates]\nparameters = 2225").replace("iface=veth0\"", "iface=veth0\"\nmtu = 9000");
    let text = text.replacen("peer = \"p0\"", "peer = \"p0\"\nmtu = 9000", 1);
    let config = parse(&text).unwrap();
    assert_eq!(config.max_update() / 4, 2226, "over IPv6");
    let text = text.replace(", \"fd00::254\"", "");
    assert_eq!(parse(&text).unwrap().max_update() / 4, 2230, "over IPv4");
}

#[test]
fn each_key_of_a_queue_says_what_it_says() {
    let text = queue(
        "discipline = \"fifo\"\nlength = 4096\nrate = \"2.5G\"\nreward_threshold = 0.5\ncombine = \"mean\"",
    );
    let config = parse(&text).unwrap();
    let [first, second] = config.port_queues().unwrap()[..] else { panic!("two ports") };
    assert_eq!((first.queue.discipline, first.queue.combine), (Discipline::Fifo, Combine::Mean));
    assert_eq!((first.queue.segments, first.queue.reward_threshold), (4096, 0.5));
    assert_eq!(first.rate, NonZeroU64::new(2_500_000_000));
    assert_eq!((second.queue.discipline, second.rate), (Discipline::Olaf, None));
    let summary = config.to_string();
    for line in [
        "job 300 \"job300\": 3 ranks, window 512; updates of up to 1400 bytes; lost after",
        "port \"p0\": fifo queue of 4096 updates, means of rewards within 0.5, at 2500000000 bit/s",
        "port \"p1\": olaf queue of 8 updates, means, at the port's own rate",
    ] {
        assert!(summary.contains(line), "{line} is missing in\n{summary}");
    }
}

/// A leaf's updates go to the appliance above, which has the server.
#[test]
fn a_job_with_a_parent_needs_no_server_here() {
    let with = |rest: &str| job(&format!("{rest}\nparent = {PARENT}")).replace(PS, "");
    let config = parse(&with("")).unwrap();
    let (leaf, summary) = (&config.jobs[1], config.to_string());
    assert!(leaf.spec.parent.is_some() && !leaf.policy().server && config.port_queues().is_some());
    let line = "its updates go to 10.78.0.254 port 16420, as rank 1 of 2";
    assert!(summary.contains(line), "{line} is missing in\n{summary}");
    for (text, what) in [
        (with("on_death = \"continue\""), "on_death"),
        (with("").replace(" }", ", backups = [{ address = \"10.79.0.254\" }] }"), "one parameter server"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.to_string().contains(what) && error.place().is_some(), "{what}: {error}");
    }
}

#[test]
fn rates_have_units() {
    let rates = [
        ("\"0\"", 0),
        ("0", 0),
        ("10_000", 10_000),
        ("\"10k\"", 10_000),
        ("\"1.5M\"", 1_500_000),
        ("\"40 G\"", 40_000_000_000),
        ("\"500 Mbit/s\"", 500_000_000),
        ("\"7\"", 7),
    ];
    for (written, bits) in rates {
        let config = parse(&queue(&format!("rate = {written}"))).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(config.port_queues().unwrap()[0].rate, NonZeroU64::new(bits), "{written}");
    }
}

/// The error, and the text that stands at the place it names.
fn wrong(text: &str) -> (String, String) {
    let error = parse(text).expect_err("a mistake");
    let place = error.place.expect("a place");
    let line = text.lines().nth(place.line - 1).unwrap_or_default();
    (error.to_string(), line.chars().skip(place.column - 1).collect())
}

/// Holds R15.1 of protocol.md.
#[test]
fn every_mistake_names_its_place_and_a_remedy() {
    let cases = [
        (job("[jobs.updates]\nparameters = 351"), "351", "leaves room for 350 of 4 bytes each"),
        (job("[jobs.updates]\nparameters = 351"), "351", "synchronous jobs"),
        (job("[jobs.updates]\nparameters = 0"), "0", "without parameters"),
        (job("[jobs.shared]\nquota = 7"), "[jobs.shared]", "in a job of kind \"updates\""),
        (job("share = 2"), "2", "no meaning"),
        (job("congestion = \"dsa\""), "\"dsa\"", "no meaning"),
        (job("multicast = \"239.77.0.1\""), "\"239", "no meaning"),
        (job("").replace("\"updates\"", "\"async\""), "\"async\"", "\"updates\""),
        (job("").replace(PS, "[ps]\nmode = \"none\"\n"), "\"updates\"", "a process of its own"),
        (job("").replace(PS, ""), "\"updates\"", "a process of its own"),
        (job("").replace("updates", "olaf").replace(PS, ""), "\"olaf\"", "a process of its own"),
        (queue("").replace("kind = \"updates\"", ""), "[ports.queue]", "no job has kind"),
        (queue("discipline = \"lifo\""), "\"lifo\"", "\"olaf\", \"fifo\""),
        (queue("length = 0"), "0", "out of range"),
        (queue("length = 16385"), "16385", "out of range"),
        (queue("rate = \"fast\""), "\"fast\"", "\"500M\""),
        (queue("rate = \"5T\""), "\"5T\"", "is not a rate"),
        (queue("rate = -1"), "-1", "is not a rate"),
        (queue("rate = \"nan\""), "\"nan\"", "is not a rate"),
        (queue("rate = \"1001G\""), "\"1001G\"", "is not a rate"),
        (queue("reward_threshold = -0.5"), "-0.5", "no distance"),
        (queue("reward_threshold = nan"), "nan", "no distance"),
        (queue("combine = \"max\""), "\"max\"", "\"sum\", \"mean\""),
        (queue("capacity = 8"), "capacity", "unknown field"),
    ];
    for (text, at, says) in cases {
        let (message, found) = wrong(&text);
        assert!(message.contains(says), "{message}\nshould say {says}");
        assert!(found.starts_with(at), "the place is at {found:?}, not {at}: {message}");
        assert!(message.contains("remedy: "), "{message}");
    }
}

/// The same with more about the parameter server.
fn ps(rest: &str) -> String {
    format!("{}{rest}\n", job(""))
}

#[test]
fn the_server_trains_as_it_is_told() {
    use pascaline_ps::asynchronous::{Audience, Combined, Rule, Settings};
    assert_eq!(parse(&job("")).unwrap().ps.training, Settings::default());
    let text = ps("rule = \"staleness\"\nlearning_rate = 0.5\nhalf_age = \"250ms\"\nweights_to = \"worker\"");
    let rule = Rule::Staleness { rate: 0.5, half: Duration::from_millis(250) };
    let expected =
        Settings { rule, combined: Combined::Sum, audience: Audience::Worker, ..Settings::default() };
    let config = parse(&text).unwrap();
    assert_eq!(config.ps.training, expected);
    assert!(
        config.to_string().contains("1 asynchronous job(s): by age, rate 0.5, half of it at 250ms"),
        "{config}"
    );
    let kept = parse(&ps("checkpoint = \"/var/lib/models\"\nreward_memory = \"9s\"")).unwrap();
    assert_eq!(kept.ps.training.memory, Duration::from_secs(9));
    assert_eq!(kept.settings()["ps.checkpoint"], "/var/lib/models");
    let means = parse(&queue("combine = \"mean\"")).unwrap();
    assert_eq!(means.ps.training.combined, Combined::Mean, "as the queue does");
    let all = means.port_queues().unwrap();
    assert!(all.iter().all(|port| port.queue.combine == Combine::Mean), "the other port's as well: {all:?}");
    assert_eq!(means.ps.limits.jobs, 0, "nothing of the pool is collected");
}

#[test]
fn what_the_server_cannot_make_sense_of_is_refused() {
    for (text, says) in [
        (ps("learning_rate = 0.0"), "learning_rate = 0 is no rate"),
        (ps("learning_rate = nan"), "learning_rate = NaN is no rate"),
        (ps("half_age = \"1s\""), "half_age is for rule = \"staleness\""),
        (ps("rule = \"sgd\""), "sgd"),
        (ps("rule = \"staleness\"\nreward_memory = \"9s\""), "reward_memory is for rule = \"olaf\""),
        (ps("checkpoint = \"models\""), "no absolute path"),
        (format!("{GOOD}\n[ps]\ncheckpoint = \"no\""), "checkpoint is for jobs of kind \"updates\""),
        (ps("weights_to = \"all\""), "all"),
        (format!("{GOOD}\n[ps]\nrule = \"olaf\""), "rule is for jobs of kind \"updates\", and there is none"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let second = "\n[ports.queue]\ncombine = \"sum\"\n";
    let text =
        queue("combine = \"mean\"").replacen("peer = \"p0\"\n", &format!("peer = \"p0\"\n{second}"), 1);
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("could not tell a sum from a mean"), "{error}");
    let silent = parse(&text.replace(second, "\n[ports.queue]\nlength = 9\n")).unwrap();
    let last = &silent.port_queues().unwrap()[1].queue;
    assert_eq!((last.segments, last.combine), (9, Combine::Mean));
}

/// A scenario of the jobs 300 and, as load, another cluster; what has to hold of their ages.
fn ages(workers: u16, length: u16, query: &str) -> String {
    format!(
        "horizon = \"1s\"\n[queue]\nlength = {length}\nservice = \"2ms\"\n[[clusters]]\nname = \"job300\"\n\
         workers = {workers}\nperiod = \"100ms\"\n[[clusters]]\nname = \"load\"\nperiod = \"70ms\"\n{query}"
    )
}

#[test]
fn a_job_that_would_not_meet_its_objective_is_refused() {
    let file = std::env::temp_dir().join(format!("pascaline-ages-{}.toml", std::process::id()));
    let verified = |text: &str, table: &str| {
        std::fs::write(&file, text).unwrap();
        parse(&job(&format!("[admission]\nverify = {:?}\n{table}", file.display())))
    };
    let bound = |bound: &str, clusters: &str| {
        format!(
            "[[query]]\nname = \"fresh\"\nmeasure = \"highest\"\nbound = {bound:?}\nclusters = [{clusters:?}]"
        )
    };
    let refused = |config: &Config| config.jobs[1].spec.refused.map(|why| why.as_str().to_owned());

    let config = verified(&ages(3, 8, &bound("200ms", "job300")), "").unwrap();
    assert!(refused(&config).is_none() && config.admission.is_none(), "nobody may form jobs by Joins");
    let config = verified(&ages(3, 8, &bound("1ms", "load")), "jobs = \"1-9\"\nfrom = [\"::/0\"]").unwrap();
    assert!(refused(&config).is_none() && config.admission.is_some(), "a query about another cluster");
    let config = verified(&ages(3, 8, &bound("10ms", "job300")), "").unwrap();
    let why = refused(&config).unwrap();
    assert!(why.starts_with("fresh fails: ") && why.contains("job300"), "{why}");
    assert!(config.to_string().contains(&format!("no rank may join: {why}")), "{config}");
    assert!(config.jobs[0].spec.refused.is_none(), "it sends no updates");
    // What takes too much of the appliance, or a solver that does not work, is no mistake of the file.
    let much = ages(3, 8, &bound("200ms", "job300")).replace("70ms", "1us");
    let why = refused(&verified(&much, "").unwrap()).unwrap();
    assert!(why.contains(".toml: no verdict: 1000032 updates come"), "{why}");

    let mistakes = [
        (ages(4, 8, &bound("1s", "job300")), "has 4 workers, and job 300 has fan_in = 3"),
        (
            ages(3, 9, &bound("1s", "job300")),
            "is about a queue of 9 updates, olaf, and the ports have 8, olaf",
        ),
        (ages(3, 8, &bound("1s", "load")).replace("job300", "other"), "has no cluster \"job300\""),
        (ages(3, 8, "[[query]]"), "measure"),
        ("horizon = ".to_owned(), ".toml:1:11: "),
    ];
    for (text, message) in mistakes {
        let error = verified(&text, "").unwrap_err().to_string();
        assert!(error.contains(message) && error.contains(":"), "{message}: {error}");
    }
    std::fs::write(&file, ages(3, 8, &bound("200ms", "job300"))).unwrap();
    let parent = format!("parent = {PARENT}\n[admission]\nverify = {:?}", file.display());
    let below = parse(&job(&parent).replace(PS, "")).unwrap_err().to_string();
    assert!(below.contains("job 300 has a parent"), "{below}");
    std::fs::remove_file(&file).unwrap();
    assert!(parse(&job(&format!("[admission]\nverify = {:?}", file.display()))).is_err(), "no such file");
    let without = parse(&format!("{GOOD}\n[admission]\nverify = \"/dev/zero\"")).unwrap_err();
    assert!(without.to_string().contains("/dev/zero"), "{without}: no regular file");
}
