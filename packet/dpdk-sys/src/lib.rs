//! Bindings to the system's libdpdk, and shims for what its headers define inline.
//!
//! Contract of this crate: it adds no meaning. Everything here is as unsafe as in C; `pascaline-dpdk` is the
//! one user. Only functions on the allow-list of `build.rs` are bound. Functions that DPDK defines as `static
//! inline` are reached through `src/shim.c`, per burst where they run per packet; the fields of an mbuf are
//! read directly through [`mbuf`].
#![allow(unsafe_code, reason = "foreign functions")]

pub mod mbuf;
mod opaque;

#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::semicolon_if_nothing_returned,
    clippy::undocumented_unsafe_blocks,
    clippy::too_many_lines,
    reason = "generated"
)]
mod bindings {
    use crate::opaque::{rte_device, rte_eth_rxtx_callback, rte_mbuf, rte_mempool};

    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
pub use opaque::{rte_device, rte_eth_rxtx_callback, rte_mbuf, rte_mempool};
