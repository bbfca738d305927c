//! The aggregation header with payload, trailer and control body behind it.
#![no_main]

#[path = "../../../packet/wire/tests/it/common/invariants.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::header(bytes);
});
