//! The events of a schedule.

/// An event.
#[derive(Debug)]
pub(super) enum What {
    /// A frame from a worker reaches the appliance's port.
    Up { worker: usize, bytes: Vec<u8>, bad_checksum: bool },
    /// A frame from the appliance reaches a worker's host.
    Down { worker: usize, bytes: Vec<u8> },
    /// A frame from one appliance reaches another one's port.
    Across { node: usize, bytes: Vec<u8> },
    /// An lcore takes its turn.
    Turn { node: usize, lcore: usize },
    /// A control plane takes its turn.
    Control { node: usize },
    /// The parameter server takes its turn.
    Serve,
    /// A worker that was stopped resumes.
    Resume { worker: usize },
    /// A worker's timer is due.
    Wake { worker: usize },
    /// A worker ends its pause.
    Begin { worker: usize, stage: u64 },
    /// The deadline of a worker's stage.
    Audit { worker: usize, stage: u64 },
    /// A timer of a host of the asynchronous job is due.
    Cluster { host: usize },
    /// A timer of one of `SwitchML`'s clients is due.
    Client { host: usize },
    /// A timer of the separate parameter server is due.
    Outside,
    /// One of the plan's upsets.
    Upset { number: usize },
    /// An appliance is back.
    ApplianceBack { node: usize },
    /// The parameter server is back.
    ServerBack,
    /// The separate parameter server is back.
    OutsideBack,
    /// A worker is back.
    WorkerBack { worker: usize },
}
