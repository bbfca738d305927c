//! A parameter server of its own that is not there: never started, killed, started again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::common::appliance::{Appliance, OLAF_JOB, SERVED_JOB, SOON, Wanted};
use crate::common::net::{Network, possible};
use crate::common::{Ended, Files, Process, until};

const LIMIT: Duration = Duration::from_secs(60);

/// Two ranks, and the server's host.
struct Site<'a> {
    network: &'a Network,
    appliance: Appliance<'a>,
    files: Files,
}

impl<'a> Site<'a> {
    fn new(network: &'a Network) -> Self {
        let appliance = Appliance::start(network, Wanted { olaf: true, ..Wanted::default() });
        Self { network, appliance, files: Files::new() }
    }

    /// Starts `pascaline ps`, with this added to its table.
    fn server(&self, more: &str) -> Process {
        let text = std::fs::read_to_string(self.appliance.config()).unwrap();
        let text = text.replace("mode = \"external\"\n", &format!("mode = \"external\"\n{more}"));
        let config: PathBuf = self.files.write("ps.toml", &text);
        let args = ["ps", "-c", config.to_str().unwrap(), "--json"];
        Process::start(Some(&self.network.workers[2]), &args)
    }

    /// Starts both ranks of a job.
    fn workers(&self, command: &str, job: u16, more: &str) -> Vec<Process> {
        let start = |rank: usize| {
            let line = format!(
                "worker {command} --appliance 10.77.0.254 --job {job} --rank {rank} --ranks 2 --json {more}"
            );
            Process::start(Some(&self.network.workers[rank]), &line.split_whitespace().collect::<Vec<_>>())
        };
        (0..2).map(start).collect()
    }

    fn readiness(&self) -> (u16, String) {
        self.appliance.get("/readyz").expect("the metrics server answers")
    }

    fn lacking(&self, job: u16) -> u64 {
        self.appliance.metrics().sum("job_server_lacking", &format!("job_id=\"{job}\""))
    }

    /// Waits until the appliance has noticed that the server has gone since `then`.
    fn misses(&self, then: Instant) {
        let lines = [OLAF_JOB, SERVED_JOB].map(|job| format!("job {job}: its parameter server is not here"));
        until("that the server is missed", SOON, || {
            let (status, readiness) = self.readiness();
            (status == 503 && lines.iter().all(|line| readiness.contains(line))).then_some(())
        });
        // The server's last word, the look here, and a busy machine.
        assert!(then.elapsed() < Duration::from_secs(3), "after {:?}", then.elapsed());
        assert_eq!([OLAF_JOB, SERVED_JOB].map(|job| self.lacking(job)), [1, 1]);
        assert!(self.appliance.log().contains("nothing is heard of the parameter server"));
    }

    fn ends_well(mut self) {
        self.appliance.terminate();
        self.appliance.ends_well();
    }
}

fn all(mut workers: Vec<Process>) -> Vec<Ended> {
    workers.iter_mut().map(|worker| worker.wait(LIMIT)).collect()
}

#[test]
fn an_allreduce_goes_on_when_the_server_is_killed_and_uses_the_next_one() {
    if !possible() {
        return;
    }
    let network = Network::new(3);
    let site = Site::new(&network);
    let server = site.server("");
    until("a server", SOON, || (site.readiness().0 == 200).then_some(()));
    let more = "--elements 300000 --iterations 12 --deadline 50s";
    let mut workers = site.workers("allreduce", SERVED_JOB, more);
    until("that the server is used", SOON, || {
        let spilled = site.appliance.metrics().packets("server_sent");
        (spilled > 2000).then_some(())
    });
    assert!(workers[0].is_running(), "it is to be killed in the middle");
    drop(server);
    site.misses(Instant::now());
    let before = site.appliance.metrics().packets("server_sent");
    let server = site.server("");
    until("the next server", SOON, || (site.readiness().0 == 200).then_some(()));
    for ended in all(workers) {
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.json()["verified"], 12, "{ended:?}");
    }
    assert!(site.appliance.metrics().packets("server_sent") > before, "the next one is used");
    drop(server);
    site.ends_well();
}

#[test]
fn a_model_survives_its_server() {
    if !possible() {
        return;
    }
    for kept in [false, true] {
        let network = Network::new(3);
        let site = Site::new(&network);
        let checkpoint = format!("checkpoint = \"{}\"\n", site.files.path("models").display());
        let more = if kept { &checkpoint } else { "" };
        let server = site.server(more);
        let options = "--floats 8 --interval 10ms --updates 700 --reward rising";
        let workers = site.workers("olaf", OLAF_JOB, options);
        let file = site.files.path("models").join(format!("job-{OLAF_JOB}.model"));
        if kept {
            until("a file", SOON, || file.exists().then_some(()));
        } else {
            until("updates", SOON, || {
                (site.appliance.metrics().sum("olaf_departed_total", "") > 50).then_some(())
            });
        }
        drop(server);
        site.misses(Instant::now());
        let mut server = site.server(more);
        let mut weights = Vec::new();
        for ended in all(workers) {
            assert_eq!(ended.code, Some(0), "{ended:?}");
            weights.push(ended.json()["weights_sum"].as_f64().unwrap());
        }
        // Eight weights between -1 and 1, of which the sum is not 0; 700 steps hardly change them.
        assert!(weights.iter().all(|sum| (sum - weights[0]).abs() < 0.1 && sum.abs() > 0.2), "{weights:?}");
        server.signal(Signal::SIGTERM);
        let ended = server.wait(SOON);
        let outcomes = &ended.json()["updates"];
        assert_eq!(outcomes["initialised"], u64::from(!kept), "{ended:?}");
        assert!(outcomes["applied"].as_u64() > Some(0), "{ended:?}");
        assert_eq!(ended.err.contains("it goes on with the model"), kept, "{}", ended.err);
        if kept {
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[30] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            site.server(more).wait(SOON).refused(2, &["job-4.model", "damaged", "delete it"]);
        }
        site.ends_well();
    }
}

#[test]
fn workers_whose_server_was_never_started_fail_and_say_so() {
    if !possible() {
        return;
    }
    let network = Network::new(3);
    let site = Site::new(&network);
    let workers = site.workers("olaf", OLAF_JOB, "--interval 20ms --updates 1000 --patience 2s");
    for ended in all(workers) {
        ended.refused(
            1,
            &["no update that this worker has sent", "the job's parameter server", "pascaline ps"],
        );
    }
    assert!(site.appliance.log().contains("the parameter server has not come"), "{}", site.appliance.log());
    assert_eq!((site.readiness().0, site.lacking(OLAF_JOB)), (503, 1));
    let metrics = site.appliance.metrics();
    assert_eq!(metrics.sum("olaf_departed_total", ""), 0);
    assert!(metrics.sum("dropped_packets_total", "reason=\"no_server\"") > 0, "{}", metrics.text);
    site.ends_well();
}
