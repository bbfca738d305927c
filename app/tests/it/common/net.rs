//! Network namespaces: a small data centre inside one machine, removed when it goes, also by a panic.
//!
//! Worker *i* has `eth0` with the address 10.77.0.(*i* + 1); its other end is `pas{i}` in the appliance's
//! namespace, without an address: it belongs to DPDK.

use std::os::fd::AsFd as _;
use std::process::Command;

use nix::sched::{CloneFlags, setns, unshare};
use pascaline_testkit::skipped;

use super::unique;

/// The appliance's address.
pub(crate) const APPLIANCE: [u8; 4] = [10, 77, 0, 254];

/// False where a test that makes network namespaces cannot run; then it counts as skipped.
pub(crate) fn possible() -> bool {
    let refused = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join().unwrap().err();
    let lacking = ["ip", "ethtool", "ping"]
        .into_iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_err());
    let why = match (refused, lacking) {
        (None, None) => return true,
        (Some(errno), _) => format!("making a network namespace: {errno} (it takes root)"),
        (None, Some(tool)) => format!("there is no command `{tool}`"),
    };
    skipped(&why);
    false
}

/// Runs a command that must succeed.
fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {args:?}: {said}");
}

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
}

impl Namespace {
    fn new(name: String) -> Self {
        run("ip", &["netns", "add", &name]);
        let this = Self { name };
        this.within(|| {
            // Neighbour discovery that nobody asked for would only blur the packet counts.
            for scope in ["all", "default"] {
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
            }
        });
        this.ip(&["link", "set", "lo", "up"]);
        this
    }

    /// `ip` inside.
    fn ip(&self, args: &[&str]) {
        run("ip", &[&["-n", &self.name], args].concat());
    }

    /// Does something inside, in a thread of its own. Sockets made and processes started there stay there.
    pub(crate) fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let handle = std::fs::File::open(format!("/run/netns/{}", self.name)).unwrap();
            setns(handle.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
            act()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
    }

    /// Pings an address; true if the answer came.
    pub(crate) fn ping(&self, address: &str) -> bool {
        let mut ping = Command::new("ping");
        ping.args(["-n", "-c1", "-W2", address]);
        self.within(|| ping.output()).unwrap().status.success()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Its interfaces go with it. A failure must not hide that of the test.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// The appliance's namespace, one for each worker, and the links between them.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) appliance: Namespace,
    pub(crate) workers: Vec<Namespace>,
}

impl Network {
    pub(crate) fn new(workers: u8) -> Self {
        let prefix = format!("pas-test-{}", unique());
        let network = Self {
            appliance: Namespace::new(format!("{prefix}-app")),
            workers: (0..workers).map(|rank| Namespace::new(format!("{prefix}-w{rank}"))).collect(),
        };
        for (rank, worker) in (0..workers).zip(&network.workers) {
            network.link(rank, worker);
        }
        network
    }

    fn link(&self, rank: u8, worker: &Namespace) {
        let port = format!("pas{rank}");
        let queues = ["numtxqueues", "2", "numrxqueues", "2"];
        let (near, far) = (mac(worker_mac(rank)), mac(port_mac(rank)));
        let one = ["link", "add", "name", "eth0", "address", &near, "netns", &worker.name];
        let other = ["type", "veth", "peer", "name", &port, "address", &far, "netns", &self.appliance.name];
        run("ip", &[&one[..], &queues, &other, &queues].concat());
        for (namespace, interface) in [(worker, "eth0"), (&self.appliance, port.as_str())] {
            // A raw socket must see what a wire would carry: no packet beyond the MTU, and whole checksums.
            let args = ["-K", interface, "tx", "off", "gso", "off", "tso", "off", "gro", "off"];
            namespace.within(|| run("ethtool", &args));
            namespace.ip(&["link", "set", interface, "up"]);
        }
        worker.ip(&["addr", "add", &format!("{}/24", address(rank)), "dev", "eth0"]);
    }
}

/// A worker's address.
pub(crate) fn address(rank: u8) -> String {
    format!("10.77.0.{}", rank + 1)
}

/// A worker's MAC.
pub(crate) const fn worker_mac(rank: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, rank]
}

/// The MAC of the appliance's port to a worker.
pub(crate) const fn port_mac(rank: u8) -> [u8; 6] {
    [2, 0, 0, 0, 2, rank]
}

fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}
