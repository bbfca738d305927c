//! Whole Ethernet frames, through every layer, and the answers to ARP, ICMP and neighbour discovery; and as
//! those of SwitchML's clients.
#![no_main]

#[path = "../../../packet/wire/tests/it/common/invariants.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::frame(bytes);
    invariants::switchml(bytes);
    invariants::switchml_body(bytes);
    // Again with good checksums: no search guesses those.
    let mut mended = bytes.to_vec();
    invariants::mend(&mut mended);
    invariants::frame(&mended);
});
