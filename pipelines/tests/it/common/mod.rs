//! An appliance around lcores, as the tests share it.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod appliance;
