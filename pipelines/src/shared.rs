//! What lcores and the control plane share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use pascaline_wire::UdpPorts;
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::plain::Compared;

use crate::capture::Tap;
use crate::jobs::JobTable;
use crate::membership::{ControlRequest, Reply};

/// A port as the packet path sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSetup {
    /// Its MAC.
    pub mac: Mac,
    /// Where frames that are not for the appliance go (inline mode).
    pub peer: Option<usize>,
}

/// What does not change while the appliance runs.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The appliance's own addresses.
    pub addresses: Vec<Address>,
    /// Its ports, in the order of their indices.
    pub ports: Vec<PortSetup>,
    udp_ports: UdpPorts,
    compared: Compared,
}

impl Setup {
    /// An appliance with these addresses and ports, which listens on these UDP ports.
    #[must_use]
    pub const fn new(addresses: Vec<Address>, udp_ports: UdpPorts, ports: Vec<PortSetup>) -> Self {
        Self { addresses, ports, udp_ports, compared: Compared::of(udp_ports) }
    }

    /// Its UDP ports.
    #[must_use]
    #[inline]
    pub const fn udp_ports(&self) -> UdpPorts {
        self.udp_ports
    }

    /// Which bytes of members' gradients have to be as expected.
    #[must_use]
    #[inline(always)]
    pub const fn compared(&self) -> &Compared {
        &self.compared
    }
}

/// Control requests that may wait for the control plane.
const REQUESTS: usize = 1024;
/// Answers that may wait for an lcore.
const REPLIES: usize = 256;

#[derive(Debug)]
struct Table {
    current: ArcSwap<JobTable>,
    /// Written by the control plane after `current`; lcores look at it between bursts.
    version: AtomicU64,
}

/// One lcore's end of what it shares with the control plane.
#[derive(Debug)]
pub struct LcoreEnd {
    table: Arc<Table>,
    seen: Arc<AtomicU64>,
    requests: Arc<ArrayQueue<ControlRequest>>,
    replies: Arc<ArrayQueue<Reply>>,
    stop: Arc<AtomicBool>,
    wall: Arc<AtomicU64>,
    tap: Arc<Tap>,
}

impl LcoreEnd {
    /// The table to begin with, and its version.
    pub(crate) fn first_table(&self) -> (u64, Arc<JobTable>) {
        let version = self.table.version.load(Ordering::Acquire);
        let table = self.table.current.load_full();
        self.adopted(version);
        (version, table)
    }

    /// The table, if it is newer than the one with the version `have`.
    #[inline]
    pub(crate) fn newer_table(&self, have: &mut u64) -> Option<Arc<JobTable>> {
        // Acquire: pairs with the Release in `publish`, so that the table loaded below is at least this new.
        let version = self.table.version.load(Ordering::Acquire);
        if version == *have {
            return None;
        }
        *have = version;
        Some(self.table.current.load_full())
    }

    /// Tells the control plane which version is in use.
    pub(crate) fn adopted(&self, version: u64) {
        self.seen.store(version, Ordering::Release);
    }

    /// Hands a request to the control plane. False if there is no room.
    pub(crate) fn request(&self, request: ControlRequest) -> bool {
        self.requests.push(request).is_ok()
    }

    /// The next answer to be sent.
    #[inline]
    pub(crate) fn reply(&self) -> Option<Reply> {
        // `is_empty` is two loads; `pop` would begin with a fence.
        if self.replies.is_empty() { None } else { self.replies.pop() }
    }

    /// Unix time in nanoseconds, at a time of the lcores' clock.
    #[inline]
    #[must_use]
    pub(crate) fn unix_ns(&self, now: u64) -> u64 {
        now.wrapping_add(self.wall.load(Ordering::Relaxed))
    }

    /// Where copies of packets are left, if they are wanted.
    #[inline]
    pub(crate) fn tap(&self) -> &Tap {
        &self.tap
    }

    /// True once the control plane wants the lcore to end.
    #[inline]
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The control plane's end.
#[derive(Debug)]
pub struct ControlPlane {
    table: Arc<Table>,
    seen: Vec<Arc<AtomicU64>>,
    requests: Arc<ArrayQueue<ControlRequest>>,
    replies: Vec<Arc<ArrayQueue<Reply>>>,
    stop: Arc<AtomicBool>,
    wall: Arc<AtomicU64>,
    tap: Arc<Tap>,
    /// Tables that an lcore may still be using. Kept here so that no lcore ever frees one.
    retired: Vec<(u64, Arc<JobTable>)>,
}

impl ControlPlane {
    /// A control plane and the ends of this many lcores.
    #[must_use]
    pub fn new(lcores: usize) -> (Self, Vec<LcoreEnd>) {
        let table = Arc::new(Table {
            current: ArcSwap::from_pointee(JobTable::default()),
            version: AtomicU64::new(0),
        });
        let requests = Arc::new(ArrayQueue::new(REQUESTS));
        let stop = Arc::new(AtomicBool::new(false));
        let wall = Arc::new(AtomicU64::new(0));
        let tap = Arc::new(Tap::default());
        let ends: Vec<LcoreEnd> = (0..lcores)
            .map(|_| LcoreEnd {
                table: Arc::clone(&table),
                seen: Arc::new(AtomicU64::new(0)),
                requests: Arc::clone(&requests),
                replies: Arc::new(ArrayQueue::new(REPLIES)),
                stop: Arc::clone(&stop),
                wall: Arc::clone(&wall),
                tap: Arc::clone(&tap),
            })
            .collect();
        let plane = Self {
            table,
            seen: ends.iter().map(|end| Arc::clone(&end.seen)).collect(),
            requests,
            replies: ends.iter().map(|end| Arc::clone(&end.replies)).collect(),
            stop,
            wall,
            tap,
            retired: Vec::new(),
        };
        (plane, ends)
    }

    /// The next request.
    #[must_use]
    pub fn request(&self) -> Option<ControlRequest> {
        self.requests.pop()
    }

    /// Puts a new table in force; lcores pick it up before their next burst.
    pub fn publish(&mut self, table: JobTable) {
        let old = self.table.current.swap(Arc::new(table));
        let version = self.table.version.fetch_add(1, Ordering::Release) + 1;
        self.retired.push((version, old));
        self.reap();
    }

    /// True if every lcore uses the newest table.
    #[must_use]
    pub fn settled(&self) -> bool {
        let version = self.table.version.load(Ordering::Relaxed);
        self.seen.iter().all(|seen| seen.load(Ordering::Acquire) == version)
    }

    /// Frees the tables that no lcore uses any more.
    pub fn reap(&mut self) {
        let oldest = self.seen.iter().map(|seen| seen.load(Ordering::Acquire)).min().unwrap_or(u64::MAX);
        self.retired.retain(|(replaced_by, _)| *replaced_by > oldest);
    }

    /// Gives an answer to the lcore whose request it answers. False if there is no room; the worker will ask again.
    pub fn reply(&self, lcore: usize, reply: Reply) -> bool {
        self.replies.get(lcore).is_some_and(|queue| queue.push(reply).is_ok())
    }

    /// Tells the lcores what time it is: Unix time, when their clock shows `lcore_ns`, both in nanoseconds. Without it, their
    /// clock is taken for Unix time.
    pub fn set_time(&self, lcore_ns: u64, unix_ns: u64) {
        self.wall.store(unix_ns.wrapping_sub(lcore_ns), Ordering::Relaxed);
    }

    /// Where lcores leave copies of packets.
    #[must_use]
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    /// Tells the lcores to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
