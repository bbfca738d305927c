//! What the tests share: one EAL per process, tiny pools, frames, and waiting with a deadline.

pub(crate) mod netns;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::{
    Device, Eal, EalConfig, Hugepages, Mbuf, Mempool, PoolConfig, Port, PortConfig, RxQueue, StartedPort,
    TxQueue,
};

/// The process's EAL, for one test at a time, so that tests are alone with pools and devices under
/// `cargo test` (threads of one process) as well as under `cargo nextest` (a process each).
pub(crate) struct TestEal {
    eal: &'static Eal,
    _turn: MutexGuard<'static, ()>,
}

impl std::ops::Deref for TestEal {
    type Target = Eal;

    fn deref(&self) -> &Eal {
        self.eal
    }
}

pub(crate) fn eal() -> TestEal {
    static TURN: Mutex<()> = Mutex::new(());
    static EAL: OnceLock<Eal> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let eal = EAL.get_or_init(|| {
        // In a thread of its own, which becomes the main lcore: no test's thread is an lcore then, whichever
        // comes first.
        let start = || Eal::init(&test_config());
        thread::spawn(start).join().expect("EAL's thread").expect("EAL starts")
    });
    TestEal { eal, _turn: turn }
}

pub(crate) fn test_config() -> EalConfig {
    EalConfig {
        program: "test".to_owned(),
        file_prefix: format!("pascaline-test-{}", std::process::id()),
        cores: vec![0, 0],
        float: true,
        hugepages: Hugepages::No,
        memory_mb: 256,
        vdevs: vec!["net_null_boot,size=99".to_owned()],
        ..EalConfig::default()
    }
}

/// Runs `test`, which ends the EAL, in a process of its own: an EAL cannot start twice in one process. `name`
/// is the path of the calling test, which that process runs again.
pub(crate) fn in_own_process(name: &str, test: impl FnOnce()) {
    const MARK: &str = "PASCALINE_TEST_IN_OWN_PROCESS";
    if std::env::var_os(MARK).is_some() {
        return test();
    }
    let program = std::env::current_exe().expect("the path of this program");
    let ended = Command::new(program).args([name, "--exact", "--nocapture"]).env(MARK, "").output();
    let ended = ended.expect("another process of this program");
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    // Zero tests are a success too.
    assert!(ended.status.success() && out.contains(" 1 passed"), "{name}: {}\n{out}\n{err}", ended.status);
}

/// A number not used before in this process, for names.
pub(crate) fn unique() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A path that no other test or process uses.
pub(crate) fn temporary(suffix: &str) -> PathBuf {
    std::env::temp_dir().join(format!("pascaline-{}-{}{suffix}", std::process::id(), unique()))
}

/// A pool so small that every leak shows, without caches so that it can be emptied to the last packet.
pub(crate) fn pool(eal: &Eal, count: u32) -> Mempool {
    let config = PoolConfig { name: format!("test{}", unique()), count, cache: 0, room: 2048 };
    Mempool::new(eal, &config).expect("pool")
}

pub(crate) fn assert_full(pool: &Mempool) {
    assert_eq!(pool.in_use(), 0, "packets leaked: {pool:?}");
}

pub(crate) fn open(eal: &Eal, devargs: &str) -> Port<pascaline_dpdk::Stopped> {
    Port::open(eal, &Device::Vdev(devargs.to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

/// A started port with one queue each way.
pub(crate) struct Single {
    pub(crate) port: Port<pascaline_dpdk::Started>,
    pub(crate) rx: RxQueue,
    pub(crate) tx: TxQueue,
}

pub(crate) fn start(eal: &Eal, devargs: &str, pool: &Mempool) -> Single {
    let config = PortConfig { rx_desc: 64, tx_desc: 64, ..PortConfig::default() };
    let started = open(eal, devargs).start(&config, std::slice::from_ref(pool));
    let StartedPort { port, mut rx, mut tx } = started.unwrap_or_else(|failure| panic!("{failure}"));
    Single { port, rx: rx.remove(0), tx: tx.remove(0) }
}

/// A packet with these bytes.
pub(crate) fn packet(pool: &Mempool, bytes: &[u8]) -> Mbuf {
    let mut packet = pool.alloc().expect("pool is not empty");
    assert!(packet.write(bytes));
    packet
}

pub(crate) fn burst(packets: impl IntoIterator<Item = Mbuf>) -> ArrayVec<Mbuf, 64> {
    packets.into_iter().collect()
}

/// Sets it at the end of its scope, also of one that ends by a failure: a scope waits for its threads, and
/// with one that polls on it would hang instead of failing.
pub(crate) struct Tells<'a>(pub(crate) &'a AtomicBool);

impl Drop for Tells<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls until `done`; fails after a time that no busy machine needs.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "no sign in time of {what}");
        thread::yield_now();
    }
}

/// Polls `rx` until `count` test frames have come. Others, which a kernel may send unasked, are let go.
pub(crate) fn receive(rx: &mut RxQueue, count: usize) -> Vec<Mbuf> {
    let mut got = Vec::new();
    wait_for("frames", || {
        let mut batch = ArrayVec::<Mbuf, 32>::new();
        rx.rx(&mut batch);
        got.extend(batch.into_iter().filter(|packet| is_ours(packet.bytes())));
        got.len() >= count
    });
    got
}

/// Sends all of `frames`.
pub(crate) fn send(tx: &mut TxQueue, mut frames: ArrayVec<Mbuf, 64>) {
    wait_for("the device to take frames", || {
        tx.tx(&mut frames);
        frames.is_empty()
    });
}

/// Local experimental EtherType 1 of IEEE 802.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const TAG: [u8; 4] = [0x81, 0x00, 0x21, 0x23];

/// An Ethernet frame of test bytes that depend on `seed`.
pub(crate) fn frame(seed: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, seed]);
    frame.extend(ETHERTYPE);
    frame.extend((0..251).cycle().take(len - 14).map(|byte: u8| byte ^ seed));
    frame
}

/// The same with an 802.1Q tag (priority 1, VLAN 291).
pub(crate) fn tagged(seed: u8, len: usize) -> Vec<u8> {
    let mut tagged = frame(seed, len - 4);
    tagged.splice(12..12, TAG);
    tagged
}

fn is_ours(bytes: &[u8]) -> bool {
    let at = |offset: usize| bytes.get(offset..offset + 2);
    at(12) == Some(&ETHERTYPE) || (at(12) == Some(&TAG[..2]) && at(16) == Some(&ETHERTYPE))
}
