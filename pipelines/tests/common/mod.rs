//! What the tests share: ports in memory, hosts that speak the protocol, and an appliance around lcores.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod appliance;
pub(crate) mod frames;
pub(crate) mod memory;
pub(crate) mod slab;
