//! Against real members of etcd.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::super::tests::{leads, remembers, takes, tree, until};
use super::*;

const LEASE: Duration = Duration::from_secs(3);

/// The certificate authority, a certificate for all members, and its key.
fn certificates(files: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let mut signs = CertificateParams::new([]).unwrap();
    signs.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (signing, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let ca = signs.self_signed(&signing).unwrap();
    let here = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = here.signed_by(&key, &Issuer::from_params(&signs, &signing)).unwrap();
    let [ca, certificate, key] =
        [("ca", ca.pem()), ("cert", certificate.pem()), ("key", key.serialize_pem())].map(|(name, text)| {
            let file = files.join(format!("{name}.pem"));
            std::fs::write(&file, text).unwrap();
            file
        });
    (ca, certificate, key)
}

/// Three members on this machine, with TLS, which end with the test.
struct Cluster {
    files: PathBuf,
    members: Vec<std::process::Child>,
    at: EtcdAt,
}

impl Cluster {
    fn start() -> Self {
        let files = std::env::temp_dir().join(format!("pascaline-etcd-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&files);
        std::fs::create_dir(&files).unwrap();
        let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ports: Vec<_> = (0..6).map(|_| free()).collect();
        let url = |scheme, at: usize| format!("{scheme}://{}", ports[at].local_addr().unwrap());
        let all: Vec<String> = (0..3).map(|at| format!("m{at}={}", url("http", at))).collect();
        let peers: Vec<String> = (0..3).map(|at| url("http", at)).collect();
        let clients: Vec<String> = (3..6).map(|at| url("https", at)).collect();
        let (ca, certificate, key) = certificates(&files);
        drop(ports);
        let member = |at: usize| {
            std::process::Command::new("etcd")
                .args(["--name", &format!("m{at}"), "--initial-cluster", &all.join(",")])
                .args(["--listen-peer-urls", &peers[at], "--initial-advertise-peer-urls", &peers[at]])
                .args(["--listen-client-urls", &clients[at], "--advertise-client-urls", &clients[at]])
                .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
                .args(["--unsafe-no-fsync", "--client-cert-auth"])
                .arg("--trusted-ca-file")
                .arg(&ca)
                .arg("--cert-file")
                .arg(&certificate)
                .arg("--key-file")
                .arg(&key)
                .arg("--data-dir")
                .arg(files.join(format!("m{at}")))
                .stderr(std::fs::File::create(files.join(format!("m{at}.log"))).unwrap())
                .spawn()
                .unwrap()
        };
        let at = EtcdAt {
            endpoints: clients.clone(),
            member: "a".into(),
            lease: LEASE,
            ca: Some(ca.clone()),
            identity: Some((certificate.clone(), key.clone())),
        };
        Self { members: (0..3).map(member).collect(), files, at }
    }

    fn store(&self, member: &str, network: &str, clock: Clock) -> Etcd {
        let at = EtcdAt { member: member.into(), ..self.at.clone() };
        Etcd::open(&at, network, clock).unwrap()
    }

    /// STOP or CONT, to every member that is left.
    fn signal(&self, what: &str) {
        for member in &self.members[1..] {
            let id = member.id().to_string();
            assert!(std::process::Command::new("kill").args([what, &id]).status().unwrap().success());
        }
    }

    fn kill(&mut self, at: usize) {
        self.members[at].kill().unwrap();
        self.members[at].wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

/// Blocks the store's runtime, as if the machine were busy, until the answer is dropped.
fn hold_up(store: &Etcd) -> mpsc::Sender<()> {
    let (hold, held) = mpsc::channel();
    store.runtime.spawn(async move { held.recv().is_ok() });
    hold
}

#[test]
fn what_is_too_much_for_one_transaction_goes_into_several() {
    let put = |at: usize, long| (format!("trees/{at}"), Some("x".repeat(long)));
    let lengths = |puts: &[records::Put]| records::together(puts).map(<[_]>::len).collect::<Vec<_>>();
    assert!(lengths(&[]).is_empty());
    assert_eq!(lengths(&(0..250).map(|at| put(at, 9)).collect::<Vec<_>>()), [100, 100, 50]);
    let large = [600_000, 300_000, 300_000, 700_000, 3_000_000, 5].into_iter().enumerate();
    let large: Vec<_> = large.map(|(at, long)| put(at, long)).collect();
    assert_eq!(lengths(&large), [2, 2, 1, 1]);
    assert_eq!(records::together(&large).flatten().count(), large.len());
}

/// A follower writes nothing: the error that it had while it led is no longer true.
#[test]
fn what_was_not_written_in_a_term_is_no_problem_after_it() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoints = vec![format!("http://{}", silent.local_addr().unwrap())];
    let at = EtcdAt { endpoints, member: "a".into(), lease: 4 * LEASE, ca: None, identity: None };
    let mut store = Etcd::open(&at, "one", Clock::since(Instant::now())).unwrap();
    let term = |revision| Some(Term { key: b"leader".to_vec(), revision, unwritten: None });
    let note = [Note::Tree(1, "w0".into(), tree())];
    store.common.state().records = Some(Records::default());
    for next in [None, term(8)] {
        store.common.state().term = term(7);
        assert!(!store.write(&note, 7).unwrap());
        assert_eq!(store.standing().problem.as_deref(), Some("etcd: etcd does not answer"));
        store.common.state().term = next;
        assert_eq!(store.standing().problem, None);
    }
}

/// One test: three members take a second to find each other.
#[test]
fn etcd_remembers_elects_and_takes_nothing_from_who_leads_no_more() {
    let version = std::process::Command::new("etcd").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return pascaline_testkit::skipped("etcd is not installed: apt-get install etcd-server");
    }
    let mut cluster = Cluster::start();
    remembers(&|clock| Box::new(cluster.store("a", "one", clock)));
    let clock = Clock::since(Instant::now());
    let mut first = cluster.store("a", "two", clock);
    let term = leads(&first);
    let mut second = cluster.store("b", "two", clock);
    let note = |job| [Note::Tree(job, "w0".into(), tree())];
    let won = first.common.state().term.clone().unwrap();
    takes(&mut first, &note(1), term);
    until("the other one hears", || second.load().unwrap()?.trees.contains_key(&1).then_some(()));
    until("it knows who leads", || (second.standing().leader.as_deref() == Some("a")).then_some(()));
    assert_eq!(second.standing().leads_until, None, "two lead");
    assert!(!second.write(&note(2), 7).unwrap(), "one that follows has written");
    // A member of etcd dies, whichever it is: term and writing continue.
    cluster.kill(0);
    takes(&mut first, &note(3), term);
    // Held up for longer than its lease: the other one leads, and this one's writes are refused.
    let (stopped, since) = (hold_up(&first), Instant::now());
    let next = leads(&second);
    let waited = since.elapsed();
    assert!(waited < 2 * LEASE, "{waited:?} until the other one leads");
    assert!(first.standing().leads_until.is_none_or(|until| until <= clock.now()), "two lead");
    drop(stopped);
    assert!(!first.write(&note(4), term).unwrap(), "an old term was written in");
    let put = [("trees/4".to_owned(), Some("{}".to_owned()))];
    assert!(!until("etcd answers", || first.commit(&won, &put).ok()), "etcd was written to in an old term");
    takes(&mut second, &note(5), next);
    until("it follows", || (first.standing().leader.as_deref() == Some("b")).then_some(()));
    // One that ends orderly hands over at once.
    let since = Instant::now();
    drop(second);
    let last = leads(&first);
    assert!(since.elapsed() < LEASE * 2 / 3, "{:?}", since.elapsed());
    let jobs: Vec<u16> = first.load().unwrap().unwrap().trees.into_keys().collect();
    assert_eq!(jobs, [1, 3, 5]);
    // Without etcd it leads no longer than the lease, and reports why, whatever the lease's end.
    cluster.signal("-STOP");
    until("it leads no more", || (first.standing().leads_until? <= clock.now()).then_some(()));
    until("it says why", || first.standing().problem);
    assert!(!first.write(&note(6), last).unwrap());
    let since = Instant::now();
    until("the lease has ended", || (since.elapsed() > LEASE / 3).then_some(()));
    cluster.signal("-CONT");
    until("it leads again", || (first.standing().leads_until? > clock.now()).then_some(()));
    // The same without a majority for good.
    cluster.kill(1);
    until("it leads no more", || {
        first.standing().leads_until.is_none_or(|until| until <= clock.now()).then_some(())
    });
    until("it says why", || first.standing().problem);
}
