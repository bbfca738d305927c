//! A worker whose packets bypass the kernel: the core of `pascaline-worker` over a DPDK port.
//!
//! The port is a physical one by its PCI address, or any of DPDK's virtual devices:
//! `net_memif0,role=client,socket=…` to an appliance on the same machine, `net_af_xdp0,iface=eth1` or
//! `net_af_packet0,iface=eth1` beside the kernel. It has an address of its own, for which it answers ARP or
//! neighbour discovery; other frames are dropped.
//!
//! | module | idea |
//! |---|---|
//! | [`config`] | port and address, and their errors |
//! | [`host`] | frames of one peer, as bytes: ARP or neighbour discovery, IPv4 or IPv6, UDP; no I/O |
//! | `link` | the port and its queues: frames to and from the session |
//! | [`worker`] | [`Dpdk`], which starts once per process; [`DpdkWorker`]: the session polled over the port |
//!
//! **Limits.** The appliance, or the next hop to it, must be in the same Ethernet segment. A worker polls: it
//! has a core for itself, or shares one and naps.
#![forbid(unsafe_code)]

pub mod config;
pub mod host;
mod link;
pub mod worker;

pub use config::{DpdkConfig, DpdkJoinError};
pub use worker::{Dpdk, DpdkWorker};
