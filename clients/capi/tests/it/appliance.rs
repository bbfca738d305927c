//! The worker's tests' appliance on a thread, and ranks that are handles.

use core::ptr;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;
use pascaline::{
    pascaline_finalize, pascaline_handle, pascaline_init, pascaline_last_error, pascaline_status,
};
use pascaline_wire::{Header, Kind};

use crate::adversary::Conditions;
use crate::aggregator::Aggregator;

pub(crate) const RANKS: u16 = 2;
/// Those of two streams of the first one.
const JOBS: [u16; 2] = [1, 2];

pub(crate) struct Appliance {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    priorities: Arc<Mutex<BTreeSet<(u16, u16)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Appliance {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let priorities = Arc::<Mutex<BTreeSet<_>>>::default();
        let seen = Arc::clone(&priorities);
        let thread = std::thread::spawn(move || {
            let mut jobs = JOBS.map(|job| Aggregator::new(job, RANKS, 64));
            let (mut random, mut peers, mut buffer) = (Rng::with_seed(1), BTreeMap::new(), [0; 4096]);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                let (header, _) = Header::parse(&buffer[..length]).unwrap();
                let Some(at) = JOBS.iter().position(|&job| job == header.job) else { continue };
                peers.insert((at, header.rank), peer);
                if header.kind == Kind::Gradient {
                    seen.lock().unwrap().insert((header.job, header.own.priority()));
                }
                for (rank, bytes) in jobs[at].handle(&buffer[..length], &Conditions::IDEAL, &mut random) {
                    // A worker that has gone refuses packets.
                    peers.get(&(at, rank)).map(|peer| socket.send_to(&bytes, peer));
                }
            }
        });
        Self { address, stop, priorities, thread: Some(thread) }
    }

    /// With which priorities a job's packets have come.
    pub(crate) fn priorities(&self, job: u16) -> Vec<u16> {
        let seen = self.priorities.lock().unwrap();
        seen.iter().filter(|(of, _)| *of == job).map(|&(_, priority)| priority).collect()
    }

    pub(crate) fn url(&self, rank: u16, more: &str) -> String {
        format!(
            "pascaline://{}/?job=1&rank={rank}&ranks={RANKS}&payload=1024&in_flight=32{more}",
            self.address
        )
    }

    /// Runs every rank on a thread of its own, with a handle, and finalizes it.
    pub(crate) fn ranks(&self, more: &str, work: impl Fn(u16, Handle) + Sync) {
        std::thread::scope(|scope| {
            for rank in 0..RANKS {
                let (work, url) = (&work, self.url(rank, more));
                scope.spawn(move || {
                    let (handle, status) = Handle::init(&url);
                    assert_eq!(status, pascaline_status::PASCALINE_OK, "{}", handle.error());
                    work(rank, handle);
                    let mut place = handle.0;
                    // SAFETY: a handle, which this thread has for itself again.
                    let status = unsafe { pascaline_finalize(&mut place) };
                    assert_eq!((status, place), (pascaline_status::PASCALINE_OK, ptr::null_mut()));
                });
            }
        });
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok(), "the aggregator found fault with a packet");
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle(pub(crate) *mut pascaline_handle);

// SAFETY: the interface allows any thread, and says BUSY where there are two at once.
unsafe impl Send for Handle {}

impl Handle {
    pub(crate) fn init(url: &str) -> (Self, pascaline_status) {
        let url = CString::new(url).unwrap();
        let mut handle = ptr::null_mut();
        // SAFETY: a string, and a place for a pointer.
        let status = unsafe { pascaline_init(url.as_ptr(), &mut handle) };
        (Self(handle), status)
    }

    pub(crate) fn error(self) -> String {
        // SAFETY: null or a handle; and the text is copied at once.
        let text = unsafe { CStr::from_ptr(pascaline_last_error(self.0)) };
        text.to_str().unwrap().to_owned()
    }
}
