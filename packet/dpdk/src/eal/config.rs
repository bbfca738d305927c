//! How the environment is to be set up.

/// Use of hugepages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hugepages {
    /// Use them if `memory_mb` of them are free, otherwise ordinary pages.
    #[default]
    Auto,
    /// Refuse to start without.
    Require,
    /// Do not use them.
    No,
}

/// Lowest severity of DPDK's own messages on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Failures only.
    #[default]
    Error,
    /// Possible causes of a later failure.
    Warning,
    /// DPDK's own default.
    Notice,
    /// Findings and actions.
    Info,
    /// Everything, drivers included.
    Debug,
}

/// The environment's configuration. The default is one main lcore on core 0 and no dataplane lcore.
#[derive(Debug, Clone)]
pub struct EalConfig {
    /// Name of the program in DPDK's messages.
    pub program: String,
    /// Prefix of this process's runtime files; unique per process.
    pub file_prefix: String,
    /// CPU of the main lcore (id 0), which is the thread that calls `init`. It may be one of `cores`.
    pub main_core: usize,
    /// CPUs of the dataplane lcores, whose ids are 1, 2, ... in this order.
    pub cores: Vec<usize>,
    /// Let every lcore run on all of these CPUs, instead of one each. For machines with fewer CPUs than
    /// lcores; `cores` may then name a CPU several times. A polling lcore that loses its CPU delays its
    /// packets.
    pub float: bool,
    /// Use of hugepages.
    pub hugepages: Hugepages,
    /// Memory for pools and rings. Without hugepages there is no more than this.
    pub memory_mb: u32,
    /// Virtual devices made at start (`net_ring0`); further ones can be opened later.
    pub vdevs: Vec<String>,
    /// Addresses of the PCI devices DPDK may take. Empty: the bus is not scanned.
    pub pci_allow: Vec<String>,
    /// Open DPDK's own telemetry socket, which `dpdk-telemetry.py` asks.
    pub telemetry: bool,
    /// Appended to EAL's command line as they are.
    pub extra_args: Vec<String>,
    /// Severity of DPDK's messages.
    pub log_level: LogLevel,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            program: "pascaline".to_owned(),
            file_prefix: format!("pascaline-{}", std::process::id()),
            main_core: 0,
            cores: Vec::new(),
            float: false,
            hugepages: Hugepages::Auto,
            memory_mb: 256,
            vdevs: Vec::new(),
            pci_allow: Vec::new(),
            telemetry: false,
            extra_args: Vec::new(),
            log_level: LogLevel::Error,
        }
    }
}
