//! Whole turns: bytes are parsed, verified, added and answered, in schedules of real workers and a real
//! appliance. The input is the script of an attacker; every promise of the fault harness must hold.
#![no_main]

use pascaline_sim::{Sabotage, scripted};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(violation) = scripted(bytes, Sabotage::None) {
        panic!("{violation}");
    }
});
