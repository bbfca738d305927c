//! A datagram that arrives at an end of a sealed job, and the same bytes sealed with right keys.
#![no_main]

#[path = "../../../packet/seal/tests/it/common/invariants.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::arrives(bytes);
});
