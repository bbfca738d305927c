//! Random traces: few jobs, generations and PSNs, so that everything meets everything else.

use pascaline_aggregator::{Key, Verb};
use pascaline_wire::Element;
use proptest::prelude::*;

use super::{Parcel, TICK, full_signature, signature};

/// What happens next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A packet arrives.
    Offer(Parcel),
    /// Some sets are swept of a generation.
    Sweep { sets: usize, epoch: u16 },
}

/// How a packet differs from what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twist {
    None,
    RankOutOfRange,
    FanIn,
    JobFanIn,
    Count,
    ShortPacket,
    Unsupported,
    Offset,
    Trailing,
    // These change what is summed.
    BothFanIns,
    Fewer,
    Shorter,
    Float,
    Overflow,
    Huge,
}

fn twist(wild: bool) -> impl Strategy<Value = Twist> {
    use Twist::*;
    let harmless = vec![RankOutOfRange, FanIn, JobFanIn, Count, ShortPacket, Unsupported, Offset, Trailing];
    let mut all = harmless;
    if wild {
        all.extend([BothFanIns, Fewer, Shorter, Float, Overflow, Huge]);
    }
    prop_oneof![3 => Just(None), 1 => proptest::sample::select(all)]
}

fn apply(twist: Twist, parcel: &mut Parcel) {
    let r = &mut parcel.request;
    match twist {
        Twist::None => {}
        Twist::RankOutOfRange => r.rank = r.job_fan_in,
        Twist::FanIn => r.fan_in += 1,
        Twist::JobFanIn => r.job_fan_in += 1,
        Twist::Count => r.count += 1,
        Twist::ShortPacket => {
            parcel.values.pop();
        }
        Twist::Unsupported => r.element = 0x0e,
        Twist::Offset => r.offset = 68,
        Twist::Trailing => parcel.trailing = 3,
        Twist::BothFanIns => {
            r.fan_in += 1;
            r.job_fan_in += 1;
            r.needed += 1;
        }
        // The job needs one rank less than before, or than later.
        Twist::Fewer => r.needed = r.needed.saturating_sub(1).max(1),
        Twist::Shorter => {
            parcel.values.pop();
            r.len = r.len.saturating_sub(4);
        }
        Twist::Float => r.element = Element::F32_SUM.code(),
        Twist::Overflow => r.overflow = true,
        Twist::Huge => parcel.values.fill(i32::MAX),
    }
}

/// The time from one packet to the next, in ticks: mostly short, sometimes beyond the age limit.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 1u64..4, 2 => 5u64..15, 1 => 25u64..60]
}

/// A trace. Job `n` has `fan_ins[n]` ranks; `wild` packets may carry payloads other than signatures.
pub(crate) fn trace(fan_ins: &'static [u16], wild: bool, steps: usize) -> impl Strategy<Value = Vec<Step>> {
    // PSNs and generations around the point where they wrap.
    let key = (0..fan_ins.len(), 0u16..2, 0u32..6);
    let single =
        (key.clone(), any::<u16>(), 0u8..8, twist(wild)).prop_map(move |(key, rank, kind, twist)| {
            let (key, fan_in) = named(key, fan_ins);
            let rank = rank % fan_in;
            let mut parcel = match kind {
                0..6 => Parcel::add(key, rank, fan_in, &signature(rank, fan_in)),
                6 => Parcel::remind(key, rank, fan_in),
                _ => Parcel::install(key, rank, fan_in, &full_signature(fan_in)),
            };
            apply(twist, &mut parcel);
            vec![Step::Offer(parcel)]
        });
    // The ranks of a PSN one after the other, beginning anywhere, perhaps without the last few.
    let round = (key, any::<u16>(), 0u16..3).prop_map(move |(key, start, short)| {
        let (key, fan_in) = named(key, fan_ins);
        (0..fan_in.saturating_sub(short))
            .map(|n| (u32::from(start) + u32::from(n) * 7) % u32::from(fan_in))
            .map(|rank| u16::try_from(rank).expect("below the fan-in"))
            .map(|rank| Step::Offer(Parcel::add(key, rank, fan_in, &signature(rank, fan_in))))
            .collect::<Vec<_>>()
    });
    let sweep =
        (1usize..4, 0u16..2).prop_map(|(sets, epoch)| vec![Step::Sweep { sets, epoch: epoch_of(epoch) }]);
    let lot = (prop_oneof![8 => single, 3 => round, 1 => sweep], pause());
    proptest::collection::vec(lot, 1..steps).prop_map(|lots| {
        let mut now = 0;
        let mut trace = Vec::new();
        for (lot, pause) in lots {
            now += pause;
            for mut step in lot {
                now += 1;
                if let Step::Offer(parcel) = &mut step {
                    parcel.request.now = now * TICK;
                }
                trace.push(step);
            }
        }
        trace
    })
}

/// Two generations, of which the second comes after the wrap.
const fn epoch_of(number: u16) -> u16 {
    number.wrapping_sub(1)
}

fn named((job, epoch, psn): (usize, u16, u32), fan_ins: &[u16]) -> (Key, u16) {
    let (epoch, psn) = (epoch_of(epoch), psn.wrapping_sub(3));
    (Key::new(u16::try_from(job).expect("few jobs"), epoch, psn), fan_ins[job])
}

/// True if the packet brings something to be summed.
pub(crate) fn is_contribution(parcel: &Parcel) -> bool {
    parcel.request.verb == Verb::Add
}

/// Fan-ins of the jobs where the bitmap is one word wide. None is a multiple of 7, the stride of a round.
pub(crate) const NARROW: &[u16] = &[1, 2, 3, 5];
/// The same for 16 words.
pub(crate) const WIDE: &[u16] = &[1, 3, 65, 1024];
