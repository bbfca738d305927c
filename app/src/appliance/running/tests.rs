//! What of a file a running appliance takes, and what it keeps.

use std::path::Path;
use std::sync::Arc;

use pascaline_pipelines::membership::Secret;
use pascaline_pipelines::{Membership, Setup};
use pascaline_wire::UdpPorts;

use super::*;

const HEAD: &str = "[appliance]\naddresses = [\"10.77.0.254\"]\n[dataplane]\nmain_core = 0\ncores = [1]\n";
const A: &str = "[[ports]]\nname = \"a\"\ndevice = \"net_null0\"\n";
const B: &str = "[[ports]]\nname = \"b\"\ndevice = \"net_null1\"\n";
const JOB: &str = "[[jobs]]\nid = 1\nfan_in = 2\nparent = { address = \"10.78.0.254\", rank = 0, ranks = 2, \
                   mac = \"02:00:00:00:00:fe\", port = \"b\" }\n";

fn parse(parts: &[&str]) -> Config {
    Config::parse(Path::new("test.toml"), &parts.concat()).unwrap()
}

/// Lcores keep the ports of the start in their places, so whatever names a port has to mean the same one.
#[test]
fn ports_in_another_order_stay_where_they_are() {
    let start = parse(&[HEAD, A, B, JOB]);
    let port = |config: &Config| config.jobs[0].spec.parent.unwrap().endpoint.port;
    let running = Running::new(&start);
    let wanted = parse(&[HEAD, B, A, JOB]);
    let kept = running.differences(&wanted);
    let kept: Vec<_> = kept.iter().map(|kept| (&*kept.key, &*kept.running, &*kept.file)).collect();
    assert_eq!(kept, [("ports", "a, b", "b, a")]);
    let next = running.with_what_can_change(&wanted).unwrap();
    assert_eq!((port(&start), port(&wanted), port(&next)), (1, 0, 1));
    assert!(running.differences(&next).is_empty());
}

fn plane(config: &Config) -> ControlPlane {
    let (specs, _) = jobs::terms(config);
    let setup = Setup::new(Vec::new(), UdpPorts::single(1), Vec::new());
    ControlPlane::new(Membership::new(specs, Secret::NONE, 1), Arc::new(setup), 1).0
}

/// Whoever renames a job is told that it has another name.
#[test]
fn a_job_with_another_name_has_changed() {
    let jobs = "[[jobs]]\nid = 1\nfan_in = 2\n[[jobs]]\nid = 2\nfan_in = 2\n";
    let start = parse(&[HEAD, A, jobs]);
    let (mut running, mut plane) = (Running::new(&start), plane(&start));
    let next = parse(&[HEAD, A, jobs, "name = \"resnet\"\n"]);
    let report = running.adopt(Duration::ZERO, next, &mut plane).unwrap();
    let told: Vec<_> = report.jobs.iter().map(|job| (job.id, &*job.name, &*job.what)).collect();
    assert_eq!(told, [(2, "resnet", "changed")]);
}

/// What the start has set up for jobs of kind "updates" is of no use without one, but there it is.
#[test]
fn the_last_asynchronous_job_can_be_deleted_and_comes_again() {
    let objective = std::env::temp_dir().join(format!("pascaline-running-{}.toml", std::process::id()));
    let text = "horizon = \"1s\"\n[queue]\nlength = 8\nservice = \"2ms\"\n[[clusters]]\nname = \"ages\"\n\
                workers = 2\nperiod = \"100ms\"\n[[query]]\nname = \"fresh\"\nmeasure = \"highest\"\n\
                bound = \"900ms\"\nclusters = [\"ages\"]\n";
    std::fs::write(&objective, text).unwrap();
    let rest = format!(
        "[ports.queue]\nlength = 8\n[ps]\nmode = \"external\"\naddress = \"10.77.0.9\"\nrule = \"olaf\"\n\
         [admission]\nverify = {:?}\n[[jobs]]\nid = 1\nfan_in = 2\n",
        objective.display()
    );
    let olaf = "[[jobs]]\nid = 2\nname = \"ages\"\nfan_in = 2\nkind = \"updates\"\n";
    let start = parse(&[HEAD, A, &rest, olaf]);
    let (mut running, mut plane) = (Running::new(&start), plane(&start));
    let report = running.delete(Duration::ZERO, &JobKey::Number(2), &mut plane).unwrap();
    assert_eq!(report.jobs.iter().map(|job| (job.id, &*job.what)).collect::<Vec<_>>(), [(2, "removed")]);
    let keys = toml::from_str("id = 2\nname = \"ages\"\nfan_in = 2\nkind = \"updates\"").unwrap();
    let report = running.create(Duration::ZERO, keys, &mut plane).unwrap();
    assert_eq!(report.jobs.iter().map(|job| (job.id, &*job.what)).collect::<Vec<_>>(), [(2, "added")]);
    std::fs::remove_file(&objective).unwrap();
    // A file that says so from the start is a mistake all the same.
    assert!(Config::parse(Path::new("test.toml"), &[HEAD, A, &rest].concat()).is_err());
}
