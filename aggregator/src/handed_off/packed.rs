//! A request in six words.

use crate::key::Key;
use crate::request::{Request, Rules, Verb};

/// In the fourth word: an element has saturated.
pub(super) const OVERFLOW: u64 = 1 << 40;
/// Also there: it brings the contributions of several ranks, which the third word names.
pub(super) const COMBINED: u64 = 1 << 43;
/// Words of a packed request.
pub(super) const PACKED: usize = 6;

pub(super) fn pack(request: &Request) -> [u64; PACKED] {
    let combined = request.inside != 0;
    let ranks = u64::from(request.rank)
        | u64::from(request.fan_in) << 16
        | u64::from(request.job_fan_in) << 32
        | u64::from(request.count) << 48;
    let payload = u64::from(request.offset)
        | u64::from(request.len) << 16
        | u64::from(request.element) << 32
        | if request.overflow { OVERFLOW } else { 0 }
        | u64::from(request.partial) << 41
        | u64::from(request.again) << 42
        | u64::from(request.marked) << 44
        | if combined { COMBINED } else { 0 }
        | (request.verb as u64) << 48;
    let terms = u64::from(request.needed) | u64::from(request.priority) << 16;
    let (key, rules) = (request.key.to_bits(), request.rules.word());
    if combined {
        // The bitmap has the count, and the fan-in is the job's: otherwise nothing is combined.
        let terms = terms | u64::from(request.fan_in) << 32 | u64::from(request.rank) << 48;
        return [key, request.now, request.inside, payload, terms, rules];
    }
    [key, request.now, ranks, payload, terms, rules]
}

#[expect(clippy::cast_possible_truncation, reason = "each field is cut out at its own width")]
pub(super) fn unpack(words: [u64; PACKED]) -> Request {
    let [key, now, ranks, payload, terms, rules] = words;
    let inside = if payload & COMBINED == 0 { 0 } else { ranks };
    let ranks = match inside {
        0 => ranks,
        _ => {
            let fan_in = terms >> 32 & 0xffff;
            terms >> 48 | fan_in << 16 | fan_in << 32 | u64::from(inside.count_ones()) << 48
        }
    };
    Request {
        inside,
        verb: Verb::ALL[(payload >> 48) as usize & 0xff],
        key: Key::from_bits(key),
        rank: ranks as u16,
        fan_in: (ranks >> 16) as u16,
        job_fan_in: (ranks >> 32) as u16,
        needed: terms as u16,
        count: (ranks >> 48) as u16,
        element: (payload >> 32) as u8,
        overflow: payload & OVERFLOW != 0,
        partial: (payload >> 41) & 1 != 0,
        again: (payload >> 42) & 1 != 0,
        marked: (payload >> 44) & 1 != 0,
        priority: (terms >> 16) as u16,
        rules: Rules::of_word(rules),
        offset: payload as u16,
        len: (payload >> 16) as u16,
        now,
    }
}
