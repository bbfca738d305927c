//! The bytes of a frame whose change the protocol claims to survive.
//!
//! Ethernet's check sequence, the checksums of IPv4 and UDP, the parsers and the membership guard a frame.
//! The harness does not simulate the first: a frame that it finds never arrives, which is a loss. The
//! appliance sends IPv4 without a UDP checksum and verifies none in software (docs/protocol.md, sections 3
//! and 14), so some bytes have no other guard. Changing those proves nothing new. Hence three modes:
//!
//! 1. **Seen by the NIC** (towards the appliance): up to four bytes of the UDP datagram change. The NIC finds
//!    the wrong checksum and marks the frame; the appliance must drop it.
//! 2. **Seen by the kernel** (towards a worker, IPv6): one byte of the UDP datagram changes. The host
//!    verifies the UDP checksum for real, and with it the appliance's sums.
//! 3. **Unseen** (IPv4): *one* byte of those below changes. Two could make up for each other.
//!
//! | offset | bytes | why a change is found, or harmless |
//! |---|---|---|
//! | 0 | destination MAC | the frame is for another host, or (a group address) still for us |
//! | 6 | source MAC | gradients: not looked at. Not in requests: a Join says with it where the member is |
//! | 12 | EtherType | another protocol |
//! | 14 | IPv4 header | its checksum finds any change of one byte |
//! | 34 | UDP source port | not the member's port (`rank_spoofed`), or not connected to. Not in requests |
//! | 36 | UDP destination port | no service there |
//! | 38 | UDP length | is not what the IP packet holds |
//! | 40 | UDP checksum | not verified |
//! | 42 | version | checked |
//! | 43 | kind | length or count do not fit the new kind (1) |
//! | 44 | flags | OVERFLOW changes no sum, a trailer does not fit, the rest is ignored or rejected (3) |
//! | 46 | job, rank | another address's rank, no such rank, or no such job (2) |
//! | 50 | PSN of a control packet | not used |
//! | 56 | count | 1 in a gradient, in a result the fan-in or as its trailer says |
//! | 58 | priority or round | any will do |
//! | 60 | `wnd_cap` | not used |
//! | 62 | epoch, its highest bit | no generation of the job. Not in an Ack: there a worker learns it |
//!
//! (1) Not of control packets, and not with a body of that length, which could be taken for one. Not of a
//! rank that is alone at its appliance, whose gradient has the count of a result. (2) In requests only if all
//! jobs list their members' addresses. Not in an Ack: it could be about a packet in which the same bit had
//! changed.
//!
//! (3) Not towards the appliance in packets about a PSN: FIN ends an operation. If other ranks differ, the
//! appliance reports it to the sender, whose operation fails.
//!
//! Not among them: element type (45) and fan-in (54), which the appliance reports to the sender, whose
//! operation fails; PSN (50) of others, of which every value is valid; the lower byte of the epoch; the
//! payload and the bodies of control packets.

use core::ops::Range;

use pascaline_wire::control;

use crate::random::Random;

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the appliance.
    Up {
        /// Whether the appliance knows the address of each rank of every job beforehand.
        listed: bool,
    },
    /// To a worker.
    Down,
    /// To a separate parameter server. It accepts any well-formed packet from the appliance.
    ToServer,
}

const BODY: usize = 42;
const KIND: usize = 43;
const FAN_IN: Range<usize> = 54..56;
const ALONE: [u8; 2] = [0, 1];
const EPOCH: usize = 62;
const CONTROL: u8 = 8;
const UPDATE: u8 = 4;
const UDP: usize = 34;
const UDP_V6: usize = 54;
const HEADERS: usize = 64;

type Ranges = &'static [Range<usize>];

/// From a worker: gradients, kept results, reminders.
const DATA_UP: Ranges = &[0..43, 46..50, 56..63];
/// From a worker: updates. Not the flags: without its flag, a trailer would count as payload.
const UPDATE_UP: Ranges = &[0..43, 46..50, 56..63];
/// From a worker: Join and Leave.
const REQUEST: Ranges = &[0..6, 12..34, 36..43, 44..45, 50..54, 56..63];
/// The same, where the job lists its members' addresses.
const LISTED_REQUEST: Ranges = &[0..6, 12..34, 36..43, 44..45, 46..54, 56..63];
/// From the appliance: results, reminders.
const DATA_DOWN: Ranges = &[0..43, 44..50, 54..63];
/// From the appliance to a server: only the job's generation distinguishes good from bad there.
const TO_SERVER: Ranges = &[0..43, 60..63];
/// From the appliance: answers and refusals.
const ACK: Ranges = &[0..43, 44..46, 50..62];

fn is_v6(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x86, 0xdd])
}

/// Changes a byte or more of a frame; returns whether the NIC sees it. `None` if no byte may change.
pub(crate) fn corrupt(frame: &mut [u8], direction: Direction, random: &mut Random) -> Option<bool> {
    let v6 = is_v6(frame);
    let udp = if v6 { UDP_V6 } else { UDP };
    if matches!(direction, Direction::Up { .. }) && (v6 || random.chance(500_000)) {
        for _ in 0..random.between(1, 4) {
            let at = udp + random.index(frame.len().checked_sub(udp)?);
            change(frame, at, random);
        }
        return Some(true);
    }
    if v6 {
        let at = udp + random.index(frame.len().checked_sub(udp)?);
        change(frame, at, random);
        return Some(false);
    }
    let ranges = match (direction, *frame.get(KIND)?) {
        (Direction::Up { listed: true }, CONTROL) => LISTED_REQUEST,
        (Direction::Up { listed: false }, CONTROL) => REQUEST,
        (Direction::Up { .. }, UPDATE) => UPDATE_UP,
        (Direction::Up { .. }, _) => DATA_UP,
        (Direction::ToServer, _) => TO_SERVER,
        (Direction::Down, CONTROL) => ACK,
        (Direction::Down, _) => DATA_DOWN,
    };
    let kind_too = direction != Direction::ToServer
        && frame[KIND] != CONTROL
        && frame.len() != HEADERS + control::LEN
        && frame.get(FAN_IN) != Some(&ALONE[..])
        && random.chance(50_000);
    let at = if kind_too { KIND } else { choose(ranges, random) };
    if at == EPOCH {
        frame[EPOCH] ^= 0x80;
    } else {
        change(frame, at, random);
    }
    Some(false)
}

/// A place in these ranges: every other time in the aggregation header, whose fields have no checksum.
fn choose(ranges: Ranges, random: &mut Random) -> usize {
    let least = if random.chance(500_000) { BODY } else { 0 };
    let part = |range: &Range<usize>| range.start.max(least)..range.end;
    let mut nth = random.index(ranges.iter().map(|range| part(range).len()).sum());
    for range in ranges.iter().map(part) {
        if nth < range.len() {
            return range.start + nth;
        }
        nth -= range.len();
    }
    0
}

/// Changes a byte: one of its bits, or any.
fn change(frame: &mut [u8], at: usize, random: &mut Random) {
    let one = 1 << random.below(8);
    let flip = if random.chance(500_000) { one } else { random.between(1, 255) };
    if let Some(byte) = frame.get_mut(at) {
        *byte ^= flip.to_le_bytes()[0];
    }
}
