//! DPDK's environment abstraction layer.

mod args;
mod config;
mod hugepages;
mod runtime;

use core::ffi::{c_char, c_int};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use pascaline_dpdk_sys as sys;

pub use config::{EalConfig, Hugepages, LogLevel};

use crate::error::Errno;
use crate::lcore::Lcore;

/// Why the environment did not start.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// DPDK can be started once per process, even if the first attempt failed.
    #[error("DPDK has already been started in this process; it can be started once only")]
    AlreadyStarted,
    /// A string that C cannot take.
    #[error("the EAL argument {argument:?} contains a NUL byte")]
    NulByte { argument: String },
    /// A core the process may not run on.
    #[error("core {core} cannot be used: this process may run on {allowed:?} (see taskset, cgroup cpusets)")]
    CoreUnavailable { core: usize, allowed: Vec<usize> },
    /// Two polling threads would take turns on one core.
    #[error(
        "core {core} is listed twice among the dataplane cores; set `float` if lcores are to share cores"
    )]
    CoreTwice { core: usize },
    /// More than DPDK was built for.
    #[error("{asked} lcores were asked for; this DPDK is built for {max}")]
    TooManyLcores { asked: usize, max: usize },
    /// Hugepages were required.
    #[error(
        "{wanted_mb} MB of hugepages are required and {usable_mb} MB can be had{}. Reserve them with e.g. \
         `sysctl -w vm.nr_hugepages={}` (2 MB pages), or do not require them",
        if *.mounted { "" } else { " and no hugetlbfs is mounted" },
        .wanted_mb.div_ceil(2)
    )]
    NoHugepages { wanted_mb: u64, usable_mb: u64, mounted: bool },
    /// More ordinary pages than there are.
    #[error("{wanted_mb} MB of memory were asked for, and this machine has {total_mb} MB")]
    TooLittleMemory { wanted_mb: u64, total_mb: u64 },
    /// `rte_eal_init` failed.
    #[error(
        "DPDK did not start: {errno}. The lines before this one, from EAL, name the cause. \
         Arguments: {arguments}"
    )]
    Init { errno: Errno, arguments: String },
}

/// The kind of memory that packets live in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Hugepages.
    Huge,
    /// Ordinary 4 kB pages, for tests and virtual devices: slower (TLB misses), unfit for most physical ones.
    Small {
        /// All of the memory for pools and rings.
        megabytes: u32,
    },
}

impl core::fmt::Display for Memory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Huge => f.write_str("hugepages"),
            Self::Small { megabytes } => write!(f, "{megabytes} MB of ordinary pages (no hugepages)"),
        }
    }
}

/// The running environment.
///
/// There is one per process, without copies. Ports, pools and lcores each hold a count on it, so it shuts
/// down after the last of them, in any order of drops.
///
/// Memory is unmapped only when no other thread can be using it: on the thread that called
/// [`init`](Self::init), while no lcore has a job. If the last handle is dropped elsewhere, the memory stays
/// until the process ends. So join the lcores, then drop the rest on the main thread.
///
/// ```compile_fail
/// fn two(eal: pascaline_dpdk::Eal) -> (pascaline_dpdk::Eal, pascaline_dpdk::Eal) {
///     (eal.clone(), eal)
/// }
/// ```
#[derive(Debug)]
pub struct Eal {
    inner: Arc<EalInner>,
    cores: Vec<usize>,
    memory: Memory,
    telemetry: bool,
}

/// The version of the DPDK that this process uses, such as `22.11.7`.
#[must_use]
pub fn version() -> String {
    // SAFETY: it returns a terminated string that nothing changes or frees.
    let version = unsafe { CStr::from_ptr(sys::rte_version()) };
    version.to_string_lossy().trim_start_matches("DPDK ").to_owned()
}

/// What handles count on.
#[derive(Debug)]
pub(crate) struct EalInner {
    /// The thread that became the main lcore.
    main: ThreadId,
    /// By lcore id: true while it has a job. The launcher sets it, the lcore clears it.
    pub(crate) busy: Arc<[AtomicBool]>,
    /// Ports with a handle; the mutex also serialises attaching and detaching of devices.
    pub(crate) open_ports: Mutex<BTreeSet<u16>>,
    /// Where EAL has its files of this run.
    files: PathBuf,
}

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// The memory that a start would use if no other process used hugepages then. Changes nothing.
    ///
    /// # Errors
    /// The configuration does not fit this machine: cores, hugepages, memory.
    pub fn would_use(config: &EalConfig) -> Result<Memory, EalError> {
        Self::memory_of(config, &hugepages::Available::reserved())
    }

    fn memory_of(config: &EalConfig, available: &hugepages::Available) -> Result<Memory, EalError> {
        args::check_cores(config, &args::allowed_cores())?;
        hugepages::choose(config, available)
    }

    /// Starts DPDK. The calling thread becomes the main lcore and is bound to `main_core`; threads that it
    /// starts later inherit that.
    ///
    /// # Errors
    /// If the configuration does not fit this machine, or DPDK refuses. After DPDK's refusal only a new
    /// process can try again; an unfit configuration can be corrected.
    pub fn init(config: &EalConfig) -> Result<Self, EalError> {
        let memory = Self::memory_of(config, &hugepages::Available::free())?;
        let words = args::command_line(config, memory);
        let arguments = words.join(" ");
        let strings = words
            .into_iter()
            .map(|word| CString::new(word.as_str()).map_err(|_| EalError::NulByte { argument: word }))
            .collect::<Result<Vec<_>, _>>()?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyStarted);
        }

        // EAL keeps pointers into its arguments and getopt reorders the array: neither is ever freed.
        let argv: &'static mut [*mut c_char] =
            Vec::leak(strings.into_iter().map(CString::into_raw).chain([core::ptr::null_mut()]).collect());
        let argc = c_int::try_from(argv.len() - 1).unwrap_or(c_int::MAX);
        // SAFETY: argv is an array of argc terminated strings and a null, writable and valid forever. The
        // flag above makes this the only call in the process.
        let parsed = unsafe { sys::rte_eal_init(argc, argv.as_mut_ptr()) };
        if parsed < 0 {
            return Err(EalError::Init { errno: Errno::last(), arguments });
        }

        let files = runtime::directory();
        runtime::remove_left(&files);
        let busy = (0..=config.cores.len()).map(|_| AtomicBool::new(false)).collect();
        Ok(Self {
            inner: Arc::new(EalInner {
                main: thread::current().id(),
                busy,
                open_ports: Mutex::new(BTreeSet::new()),
                files,
            }),
            cores: config.cores.clone(),
            memory,
            telemetry: config.telemetry,
        })
    }

    /// The kind of memory in use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The socket that `dpdk-telemetry.py` asks, if it is open.
    #[must_use]
    pub fn telemetry_socket(&self) -> Option<PathBuf> {
        self.telemetry.then(|| runtime::directory().join("dpdk_telemetry.v2"))
    }

    /// The dataplane lcores, one per configured core, in that order.
    #[must_use]
    pub fn lcores(&self) -> Vec<Lcore> {
        (1..).zip(&self.cores).map(|(id, core)| Lcore::new(id, *core, self.inner.clone())).collect()
    }

    pub(crate) fn inner(&self) -> &Arc<EalInner> {
        &self.inner
    }
}

impl EalInner {
    /// True if no other thread can be inside a function of DPDK on an lcore's behalf.
    ///
    /// A pool may look full while an lcore still writes into its cache of that pool (`rte_mempool_put` counts
    /// before it stores). Threads that are no lcores have no cache: the count shows their packets after the
    /// last access.
    pub(crate) fn is_quiet(&self) -> bool {
        // Acquire pairs with the release by which an lcore leaves its job.
        thread::current().id() == self.main && self.busy.iter().all(|busy| !busy.load(Ordering::Acquire))
    }

    /// Keeps the environment and all memory until the process ends.
    pub(crate) fn keep_forever(self: &Arc<Self>) {
        mem::forget(Arc::clone(self));
    }
}

impl Drop for EalInner {
    fn drop(&mut self) {
        if !self.is_quiet() {
            // The kernel takes the memory back at the end.
            tracing::debug!("EAL left to the end of the process: its last user was not the main lcore");
            return;
        }
        // SAFETY: started by `init`, and nothing made from it is left, since ports, pools and jobs of lcores
        // hold a count on self; a pool that did not get all packets back has pinned the count. No lcore is at
        // work.
        unsafe { sys::rte_eal_cleanup() };
        runtime::remove(&self.files);
    }
}
