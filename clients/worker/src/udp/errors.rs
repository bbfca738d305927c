//! Why a worker cannot join, or an operation or a command fails.

use std::io;
use std::net::SocketAddr;

use core::fmt;

use pascaline_wire::MAX_RANKS;
use pascaline_wire::ports::UdpPortsError;

use super::{MAX_DSCP, MAX_PAYLOAD, MAX_STREAMS};
use crate::allreduce::Failure;
use crate::masked::Fault;
use crate::membership::JoinFailure;
use crate::session::{CommandFailure, StartError};

/// A configuration that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No ranks, or too many.
    #[error("{ranks} ranks: a job has 1 to {MAX_RANKS}")]
    Ranks {
        /// The rank count.
        ranks: u16,
    },
    /// The rank is not below the rank count.
    #[error("rank {rank} of {ranks}: ranks are counted from 0 to {}", ranks - 1)]
    Rank {
        /// The rank.
        rank: u16,
        /// The rank count.
        ranks: u16,
    },
    /// The payload length is out of range or no multiple of the largest element.
    #[error("payload of {payload} bytes: must be a multiple of 8, at most {MAX_PAYLOAD}")]
    Payload {
        /// The payload length.
        payload: u16,
    },
    /// It does not fit into its 6 bits.
    #[error("DSCP {dscp}: at most {MAX_DSCP}")]
    Dscp {
        /// The DSCP.
        dscp: u8,
    },
    /// A spread of 0.
    #[error("spread must be at least 1")]
    NothingInFlight,
    /// More backups than a list may have.
    #[error("{backups} backup appliances: at most {most}")]
    Backups {
        /// How many there are.
        backups: usize,
        /// How many there may be.
        most: usize,
    },
    /// More trees than a worker may have, or than there are numbers for their jobs.
    #[error("job {job} with {trees} trees: at most {most}, and each has the next job's number")]
    Trees {
        /// The first tree's job.
        job: u16,
        /// How many there are.
        trees: usize,
        /// How many there may be.
        most: usize,
    },
    /// No stream, more than a rank may have, or than there are numbers for their jobs.
    #[error(
        "{streams} streams of job {job} with {trees} trees: 1 to {MAX_STREAMS}, and each tree of each \
             stream has the next job's number"
    )]
    Streams {
        /// The first stream's job.
        job: u16,
        /// How many there are.
        streams: u16,
        /// The trees of each.
        trees: usize,
    },
    /// A tree without an appliance.
    #[error("tree {tree} has no appliance")]
    NoAppliance {
        /// The tree's number, from 0.
        tree: usize,
    },
    /// An appliance that would be its own backup.
    #[error("{appliance} is in the list of appliances twice")]
    Twice {
        /// The appliance.
        appliance: SocketAddr,
    },
    /// The socket of a worker has one address family.
    #[error("{backup} cannot stand in for {appliance}: one is IPv4, the other IPv6")]
    BackupFamily {
        /// The backup.
        backup: SocketAddr,
        /// The appliance.
        appliance: SocketAddr,
    },
    /// No appliance can answer in no time.
    #[error("a silence of 0 s: no appliance could answer in time")]
    Silence,
    /// No appliance has such ports.
    #[error(transparent)]
    UdpPorts(#[from] UdpPortsError),
    /// The worker has keys of other jobs only.
    #[error(
        "no key of job {job}, whose packets are to be sealed: each tree of each stream has a job, and a key"
    )]
    NoKey {
        /// The job.
        job: u16,
    },
    /// One address is IPv4, the other IPv6.
    #[error("cannot bind to {bind} to reach {appliance}: one is IPv4, the other IPv6")]
    Family {
        /// The local address.
        bind: SocketAddr,
        /// The appliance's.
        appliance: SocketAddr,
    },
}

/// Why a worker could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An operation of the system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// The appliance rejected the worker, or time ran out.
    #[error("joining at {appliance} failed{}: {failure}", AsAt(.others))]
    Failed {
        /// The appliance, the latest one of several.
        appliance: SocketAddr,
        /// If none has answered: the other ones that were asked.
        others: Vec<SocketAddr>,
        /// Why.
        #[source]
        failure: JoinFailure,
    },
}

/// Further addresses with the same failure.
struct AsAt<'a>(&'a [SocketAddr]);

impl fmt::Display for AsAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, other) in self.0.iter().enumerate() {
            write!(f, "{} {other}", if at == 0 { ", as at" } else { "," })?;
        }
        Ok(())
    }
}

/// Why a command of a member had no effect, or none that could be seen.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The appliance refused it, or did not answer.
    #[error(transparent)]
    Failed(#[from] CommandFailure),
    /// It could not begin.
    #[error("no command can be sent: {0}")]
    Start(#[from] StartError),
    /// An operation of the system failed. The worker can only be dropped.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}

/// Why an allreduce failed.
#[derive(Debug, thiserror::Error)]
pub enum AllreduceError {
    /// The deadline passed, or the appliance rejected a packet. The tensor's content is unspecified. After
    /// [`Reason::Generation`](crate::Reason::Generation) the next allreduce is the first one of all ranks:
    /// every worker of the job fails once. Otherwise all ranks must join again.
    #[error("allreduce failed: {0}")]
    Failed(#[from] Failure),
    /// It could not begin. The tensor is unchanged. [`StartError::Ended`] means `Reason::Generation`, noticed
    /// between two allreduces.
    #[error("allreduce not started: {0}")]
    Start(#[from] StartError),
    /// It was to be masked, and a rank or what is on the way does not do its part.
    #[error("masked allreduce failed: {0}")]
    Masked(#[from] Fault),
    /// An operation of the system failed. As with `Failed`, the worker can only be dropped.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// Its error.
        source: io::Error,
    },
}
