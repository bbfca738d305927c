//! An appliance around lcores, as the tests share it.

pub(crate) mod appliance;
