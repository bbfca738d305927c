//! Control bodies.
#![no_main]

#[path = "../../../packet/wire/tests/it/common/invariants.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::control(bytes);
});
