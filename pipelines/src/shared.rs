//! What lcores and the control plane share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;

use crate::capture::Capture;
use crate::jobs::JobTable;
use crate::membership::{ControlRequest, Found, PsnOrder, Reply};

/// Control requests that may wait for the control plane: of those whom the job table knows, and of others.
const REQUESTS: usize = 1024;
/// Answers to its questions that may wait for the control plane.
const FOUND: usize = 64;
/// Answers that may wait for an lcore.
const REPLIES: usize = 256;
/// Orders of an operator that may wait for an lcore.
const ORDERS: usize = 16;

#[derive(Debug)]
struct Table {
    current: ArcSwap<JobTable>,
    /// Written by the control plane after `current`; lcores look at it between bursts.
    version: AtomicU64,
}

/// Control requests that wait. Whoever floods the appliance fills the queue of strangers: members have one of
/// their own.
#[derive(Debug)]
struct Requests {
    known: ArrayQueue<ControlRequest>,
    strangers: ArrayQueue<ControlRequest>,
}

/// One lcore's end of what it shares with the control plane.
#[derive(Debug)]
pub struct LcoreEnd {
    table: Arc<Table>,
    seen: Arc<AtomicU64>,
    requests: Arc<Requests>,
    found: Arc<ArrayQueue<Found>>,
    replies: Arc<ArrayQueue<Reply>>,
    orders: Arc<ArrayQueue<PsnOrder>>,
    stop: Arc<AtomicBool>,
    wall: Arc<AtomicU64>,
    capture: Arc<Capture>,
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

    /// Hands a request of somebody whom the job table knows, or not, to the control plane. False if there is
    /// no room.
    pub(crate) fn request(&self, request: ControlRequest, known: bool) -> bool {
        let queue = if known { &self.requests.known } else { &self.requests.strangers };
        queue.push(request).is_ok()
    }

    /// Hands an answer to a question of the control plane's to it. False if there is no room.
    pub(crate) fn found(&self, found: Found) -> bool {
        self.found.push(found).is_ok()
    }

    /// The next answer to be sent.
    #[inline]
    pub(crate) fn reply(&self) -> Option<Reply> {
        // `is_empty` is two loads; `pop` would begin with a fence.
        if self.replies.is_empty() { None } else { self.replies.pop() }
    }

    /// The next order of an operator.
    #[inline]
    pub(crate) fn order(&self) -> Option<PsnOrder> {
        // As with replies.
        if self.orders.is_empty() { None } else { self.orders.pop() }
    }

    /// Unix time in nanoseconds, at a time of the lcores' clock.
    #[inline]
    #[must_use]
    pub(crate) fn unix_ns(&self, now: u64) -> u64 {
        now.wrapping_add(self.wall.load(Ordering::Relaxed))
    }

    /// Where to leave copies of packets, if they are wanted.
    #[inline]
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    /// True once the control plane wants the lcore to end.
    #[inline]
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The control plane's end of what it shares with every lcore.
#[derive(Debug)]
pub(crate) struct ControlEnd {
    table: Arc<Table>,
    seen: Vec<Arc<AtomicU64>>,
    requests: Arc<Requests>,
    found: Arc<ArrayQueue<Found>>,
    replies: Vec<Arc<ArrayQueue<Reply>>>,
    /// To the first lcore: each takes the packets of every PSN.
    orders: Arc<ArrayQueue<PsnOrder>>,
    stop: Arc<AtomicBool>,
    wall: Arc<AtomicU64>,
    capture: Arc<Capture>,
    /// Tables that an lcore may still be using. Kept here so that no lcore ever frees one.
    retired: Vec<(u64, Arc<JobTable>)>,
}

impl ControlEnd {
    /// Both ends: the control plane's, and one for each of this many lcores.
    pub(crate) fn connect(lcores: usize) -> (Self, Vec<LcoreEnd>) {
        let table = Arc::new(Table {
            current: ArcSwap::from_pointee(JobTable::default()),
            version: AtomicU64::new(0),
        });
        let queue = || ArrayQueue::new(REQUESTS);
        let requests = Arc::new(Requests { known: queue(), strangers: queue() });
        let found = Arc::new(ArrayQueue::new(FOUND));
        let stop = Arc::new(AtomicBool::new(false));
        let wall = Arc::new(AtomicU64::new(0));
        let capture = Arc::new(Capture::default());
        let ends: Vec<LcoreEnd> = (0..lcores)
            .map(|_| LcoreEnd {
                table: Arc::clone(&table),
                seen: Arc::new(AtomicU64::new(0)),
                requests: Arc::clone(&requests),
                found: Arc::clone(&found),
                replies: Arc::new(ArrayQueue::new(REPLIES)),
                orders: Arc::new(ArrayQueue::new(ORDERS)),
                stop: Arc::clone(&stop),
                wall: Arc::clone(&wall),
                capture: Arc::clone(&capture),
            })
            .collect();
        let plane = Self {
            table,
            seen: ends.iter().map(|end| Arc::clone(&end.seen)).collect(),
            requests,
            found,
            replies: ends.iter().map(|end| Arc::clone(&end.replies)).collect(),
            orders: ends.first().map_or_else(|| Arc::new(ArrayQueue::new(1)), |end| Arc::clone(&end.orders)),
            stop,
            wall,
            capture,
            retired: Vec::new(),
        };
        (plane, ends)
    }

    /// True if a request waits, or the answer to a question.
    pub(crate) fn has_requests(&self) -> bool {
        let Requests { known, strangers } = &*self.requests;
        !known.is_empty() || !strangers.is_empty() || !self.found.is_empty()
    }

    /// The next answer to a question.
    pub(crate) fn found(&self) -> Option<Found> {
        self.found.pop()
    }

    /// The next request of somebody whom the job table knows.
    pub(crate) fn known_request(&self) -> Option<ControlRequest> {
        self.requests.known.pop()
    }

    /// The next request of anybody else.
    pub(crate) fn request(&self) -> Option<ControlRequest> {
        self.requests.strangers.pop()
    }

    /// Puts a new table in force; lcores pick it up before their next burst.
    pub(crate) fn publish(&mut self, table: JobTable) {
        let old = self.table.current.swap(Arc::new(table));
        let version = self.table.version.fetch_add(1, Ordering::Release) + 1;
        self.retired.push((version, old));
        self.reap();
    }

    /// The number of the newest table.
    pub(crate) fn newest(&self) -> u64 {
        self.table.version.load(Ordering::Relaxed)
    }

    /// Frees the tables that no lcore uses any more. Gives the number of the oldest that one uses.
    pub(crate) fn reap(&mut self) -> u64 {
        let seen = self.seen.iter().map(|seen| seen.load(Ordering::Acquire));
        let oldest = seen.min().unwrap_or_else(|| self.newest());
        self.retired.retain(|(replaced_by, _)| *replaced_by > oldest);
        oldest
    }

    /// Gives an answer to the lcore whose request it answers. False if there is no room.
    pub(crate) fn reply(&self, lcore: usize, reply: Reply) -> bool {
        self.replies.get(lcore).is_some_and(|queue| queue.push(reply).is_ok())
    }

    /// Gives an operator's order to an lcore. False if there is no room.
    pub(crate) fn order(&self, order: PsnOrder) -> bool {
        self.orders.push(order).is_ok()
    }

    /// Tells the lcores what Unix time it is when their clock shows `lcore_ns`, both in nanoseconds.
    pub(crate) fn set_time(&self, lcore_ns: u64, unix_ns: u64) {
        self.wall.store(unix_ns.wrapping_sub(lcore_ns), Ordering::Relaxed);
    }

    /// Where lcores leave copies of packets.
    pub(crate) fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Tells the lcores to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
