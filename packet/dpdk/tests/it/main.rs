//! The safe layer over DPDK, on virtual devices and on devices of the kernel.
//!
//! - [`kernel_life`]: interfaces that are deleted and made anew, renamed, switched off under a port
//! - [`kernel_ports`]: `net_af_packet`, `net_af_xdp`, `net_tap`, each test in a network namespace
//! - [`kernel_sockets`]: ports over packet sockets: long datagrams are cut, answers leave in one piece
//! - [`kernel_taps`]: frames that are too long, that the kernel cannot describe, or that a card has joined
//! - [`lcores`]: jobs on lcores, and the clock
//! - [`packets`]: pools and packets, exclusive and shared
//! - [`rings`]: `net_ring`: packets, shared tails, and what is discarded
//! - [`shutdown`], [`teardown`]: handles that outlive the EAL, each in a process of its own
//! - [`virtual_ports`]: `net_null`, `net_ring`, `net_pcap`, `net_memif`
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod kernel_life;
mod kernel_ports;
mod kernel_sockets;
mod kernel_taps;
mod lcores;
mod packets;
mod rings;
mod shutdown;
mod teardown;
mod virtual_ports;
