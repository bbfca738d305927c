//! Packet memory, and operations on payload bytes in place.
//!
//! Contract of this crate: it depends neither on the wire format nor on the source of packets. It defines a
//! packet in memory ([`PacketBuf`], owned by one holder and writable; [`SharedBuf`], read-only and counted),
//! gives one implementation on the heap for tests, benches and simulations ([`HeapBuf`]), holds the kernels
//! that combine two payloads element by element ([`combine`]), and prefetches memory ([`prefetch`]). DPDK's
//! implementation lives in `pascaline-dpdk`.
#![allow(unsafe_code, reason = "raw hand-off of packets between threads, and SIMD kernels")]

pub mod combine;
mod heap;
mod packet;
pub mod prefetch;

pub use heap::{HeapBuf, HeapPool, HeapShared};
pub use packet::{PacketBuf, Scratch, SharedBuf};
