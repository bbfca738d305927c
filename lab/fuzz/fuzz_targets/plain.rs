//! Gradients on the fast path, one after the other, beside the ordinary parsers.
#![no_main]

#[path = "../../../packet/wire/tests/it/common/fast_path.rs"]
#[allow(clippy::unwrap_used, reason = "shared with tests")]
mod common;
#[path = "../../../packet/wire/tests/it/common/invariants.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod invariants;

use common::{FIRST_PORT, HEADER, agree, frame};
use invariants::mend;
use pascaline_wire::UdpPorts;
use pascaline_wire::fast_path::{HEADERS, Lengths};

/// How a frame is made of the input: two bytes of choices, then what its headers differ in from the expected.
const FRAME: usize = 2 + HEADERS;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // State kept from one frame must not change the result of the next.
    let mut lengths = Lengths::NONE;
    for choices in bytes.chunks(FRAME) {
        let [form, length, changes @ ..] = choices else { continue };
        let Ok(ports) = UdpPorts::new(FIRST_PORT, 1 << (form % 8).min(6)) else { continue };
        let mut frame = frame(&vec![*length; usize::from(*length)], &HEADER);
        frame.iter_mut().zip(changes).for_each(|(byte, change)| *byte ^= change);
        if form & 8 != 0 {
            mend(&mut frame);
        }
        frame.truncate(frame.len() - usize::from(form >> 4));
        agree(&frame, ports, &mut lengths);
    }
});
