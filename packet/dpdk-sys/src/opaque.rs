//! DPDK's objects that are only ever handled by address.
//!
//! bindgen would generate their insides with names that depend on the release of DPDK.
#![allow(non_camel_case_types, reason = "the names of the C structures")]

use crate::PSC_MBUF_SIZE;

/// A segment of a packet: this header, the private area, the buffer. Fields: [`crate::mbuf`].
#[repr(C, align(64))]
pub struct rte_mbuf {
    opaque: [u8; PSC_MBUF_SIZE as usize],
}

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            opaque: [u8; 0],
        }
    )*};
}

opaque! {
    /// Where mbufs come from.
    rte_mempool;
    /// A device on a bus.
    rte_device;
    /// A function installed on a queue.
    rte_eth_rxtx_callback;
}
