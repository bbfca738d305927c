//! Counters that one lcore writes and all threads may read.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

use crate::drops::DropReason;
use crate::named::named;

named! {
    /// Counters of an lcore other than drops.
    Counter, "";
    /// Packets received.
    Received => "received_packets",
    /// Bytes received, Ethernet header included.
    ReceivedBytes => "received_bytes",
    /// Packets passed on: to the peer port, to the parameter server, or from it to a rank.
    Forwarded => "forwarded_packets",
    /// Packets that the pool or a queue of updates took in, or whose request changed its state.
    Absorbed => "absorbed_packets",
    /// Packets answered to their sender: replays, ARP, neighbour discovery, echo, control.
    Answered => "answered_packets",
    /// Sums completed.
    Completed => "results",
    /// Results taken over from a rank that had cached them.
    Installed => "results_installed",
    /// Results from a rank that had cached them, passed to the others without a slot, since none was free.
    PassedOn => "results_passed_on",
    /// Cached results sent again to a rank that asked or retransmitted.
    Replayed => "results_replayed",
    /// Completed results in which an integer saturated.
    Overflowed => "results_overflowed",
    /// Completed results with an infinity or NaN; an estimate from every eighth result.
    NonFinite => "results_nonfinite",
    /// Result packets handed to a port: one per result and member, or multicast group of members.
    ResultsSent => "results_sent_packets",
    /// Result packets that were not needed: one to a job's multicast group stood for several.
    ResultsSpared => "results_spared_packets",
    /// Result packets whose payload was copied because the port cannot send several segments.
    PayloadCopies => "payload_copies",
    /// Results or replies not sent because no buffer was free.
    NoBuffer => "no_buffer",
    /// Reminders received.
    RemindersReceived => "reminders_received",
    /// Reminders not sent on: the PSN was asked for a moment ago, or too many came at once.
    RemindersLimited => "reminders_limited",
    /// Reminders sent on to ranks that are missing.
    RemindersSent => "reminders_sent_packets",
    /// Refusals sent to workers whose packets are dropped; rate-limited.
    RefusalsSent => "refusals_sent_packets",
    /// Packets sent.
    Sent => "sent_packets",
    /// Bytes sent, Ethernet header included.
    SentBytes => "sent_bytes",
    /// Packets that the appliance made and a full transmit queue did not take.
    TransmitDropped => "tx_dropped_packets",
    /// Packets handed off to the owner of their set or queue.
    HandedOff => "handed_off_packets",
    /// Contributions added to one that was about to be handed off.
    Combined => "contributions_combined",
    /// Combined contributions that the owner rejected, with the packet that carried them.
    CombinedRefused => "combined_refused",
    /// Slots opened by a first contribution.
    Opened => "slots_opened",
    /// Contributions added to a partial that was in its slot.
    Hits => "slot_hits",
    /// Contributions that found no slot: the set was full, the job's quota was used up, or the owner's ring
    /// was full.
    Conflicts => "slot_conflicts",
    /// Cached results evicted by another PSN.
    DisplacedResults => "results_displaced",
    /// Partials discarded: of a former generation, overtaken by a result from elsewhere, without room at the
    /// parameter server; or too old, preempted or given back, of a job without such a server.
    DisplacedPartials => "partials_displaced",
    /// Partials evicted by another PSN.
    Preempted => "preemptions",
    /// Partials sent to the parameter server, for whatever reason they lost their slot.
    Evicted => "partials_evicted",
    /// Contributions sent to the parameter server because they found no slot.
    Spilled => "contributions_spilled",
    /// Results made by the parameter server.
    ServerResults => "server_results",
    /// Packets handed to the parameter server.
    ServerSent => "server_sent_packets",
    /// Acknowledgements of a parameter server handed to a port, one per member.
    AcksSent => "acks_sent_packets",
    /// Partials sent out as results, because their time was up or a rank asked.
    Released => "results_released",
    /// Sums, results and reminders handed to the appliance above.
    SentUp => "sent_up_packets",
    /// Results and reminders of the appliance above.
    FromAbove => "from_above_packets",
    /// Packets that a bridge sent to all its other ports: to groups, and to MACs that it has not learned.
    Flooded => "bridge_flooded_packets",
    /// Frames that bridges have made of flooded packets, one for each port but the first.
    FloodCopies => "bridge_copies",
    /// MACs that a bridge has learned, in each VLAN.
    BridgeLearned => "bridge_learned",
    /// MACs that a bridge has heard at another port than before.
    BridgeMoved => "bridge_moved",
    /// Packets of MACs that a bridge has not learned, since it had no place for them.
    BridgeFull => "bridge_full_packets",
    /// Turns of the loop that found packets, or what other lcores or the parameter server had left.
    BusyTurns => "busy_turns",
    /// Turns of the loop that found nothing.
    IdleTurns => "idle_turns",
    /// Polls of a port's receive queue that found nothing.
    EmptyPolls => "empty_polls",
}

const COUNTERS: usize = Counter::ALL.len();
const DROPS: usize = DropReason::ALL.len();

/// Upper bounds of the classes of burst sizes; larger bursts count in the last class.
pub const BURST_SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// An lcore's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Bursts received, by class of [`BURST_SIZES`].
    pub bursts: [u64; BURST_SIZES.len()],
    /// Packets in them.
    pub packets: u64,
    /// Time from a burst's reception to the end of the work on it, and of the work that others have left for
    /// the lcore, summed, in nanoseconds.
    pub busy_ns: u64,
}

const LOADS: usize = BURST_SIZES.len() + 2;

impl Load {
    const fn to_array(self) -> [u64; LOADS] {
        let [a, b, c, d, e, f] = self.bursts;
        [a, b, c, d, e, f, self.packets, self.busy_ns]
    }

    const fn from_array([a, b, c, d, e, f, packets, busy_ns]: [u64; LOADS]) -> Self {
        Self { bursts: [a, b, c, d, e, f], packets, busy_ns }
    }

    /// Polls that found packets.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.bursts.iter().sum()
    }
}

/// Counts of an lcore since its last publication: plain numbers, its own.
#[derive(Debug, Clone)]
pub struct Tally {
    counters: [u64; COUNTERS],
    drops: [u64; DROPS],
    load: Load,
    any_drop: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self { counters: [0; COUNTERS], drops: [0; DROPS], load: Load::default(), any_drop: false }
    }
}

impl Tally {
    /// Adds to a counter.
    #[inline]
    pub fn add(&mut self, counter: Counter, count: u64) {
        self.counters[counter as usize] += count;
    }

    /// Counts a dropped packet.
    #[inline]
    pub fn drop_one(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
        self.any_drop = true;
    }

    /// Notes a burst of `packets` packets, at least one, and the nanoseconds of work on it.
    #[inline]
    pub fn burst(&mut self, packets: usize, busy_ns: u64) {
        let class = usize::BITS - packets.saturating_sub(1).leading_zeros();
        self.load.bursts[(class as usize).min(BURST_SIZES.len() - 1)] += 1;
        self.load.packets += packets as u64;
        self.load.busy_ns += busy_ns;
    }

    /// Notes the nanoseconds of work that came without a burst: others have left it for the lcore.
    #[inline]
    pub fn busy(&mut self, ns: u64) {
        self.load.busy_ns += ns;
    }

    /// A forwarded packet did not fit into the transmit queue: counts it as dropped instead.
    pub fn forward_failed(&mut self) {
        let forwarded = &mut self.counters[Counter::Forwarded as usize];
        *forwarded = forwarded.saturating_sub(1);
        self.drop_one(DropReason::TransmitFull);
    }

    /// The value of a counter since the last publication.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Drops for a reason since the last publication.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}

/// The published counters of one lcore.
///
/// Written by that lcore only. Readers see all values of one publication or none: the version is odd while
/// the lcore writes, and a reader that saw it change reads again (a sequence lock over atomics).
#[derive(Debug)]
pub struct LcoreCounters {
    version: CachePadded<AtomicU64>,
    counters: [AtomicU64; COUNTERS],
    drops: [AtomicU64; DROPS],
    load: [AtomicU64; LOADS],
}

impl Default for LcoreCounters {
    fn default() -> Self {
        Self {
            version: CachePadded::new(AtomicU64::new(0)),
            counters: [const { AtomicU64::new(0) }; COUNTERS],
            drops: [const { AtomicU64::new(0) }; DROPS],
            load: [const { AtomicU64::new(0) }; LOADS],
        }
    }
}

impl LcoreCounters {
    /// The value of one counter, apart from the others.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// Adds a tally to the published counts and clears it. Only the owning lcore may call it: a second writer
    /// would lose counts.
    #[inline]
    pub fn publish(&self, tally: &mut Tally) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // No value below may become visible before the odd version.
        fence(Ordering::Release);
        for (published, count) in self.counters.iter().zip(&mut tally.counters) {
            if *count != 0 {
                bump(published, core::mem::take(count));
            }
        }
        if tally.load.packets != 0 || tally.load.busy_ns != 0 {
            for (published, count) in self.load.iter().zip(core::mem::take(&mut tally.load).to_array()) {
                bump(published, count);
            }
        }
        if tally.any_drop {
            for (published, count) in self.drops.iter().zip(&mut tally.drops) {
                bump(published, core::mem::take(count));
            }
            tally.any_drop = false;
        }
        // The even version becomes visible after the values.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// A consistent reading.
    #[must_use]
    pub fn read(&self) -> Reading {
        loop {
            let before = self.version.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let reading = Reading {
                    counters: core::array::from_fn(|index| self.counters[index].load(Ordering::Relaxed)),
                    drops: core::array::from_fn(|index| self.drops[index].load(Ordering::Relaxed)),
                    load: Load::from_array(core::array::from_fn(|index| {
                        self.load[index].load(Ordering::Relaxed)
                    })),
                };
                // The values above were loaded before the version below.
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == before {
                    return reading;
                }
            }
            core::hint::spin_loop();
        }
    }
}

/// Adds to a count that only the caller writes, so that no read-modify-write is needed.
#[inline]
pub(crate) fn bump(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Counters as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    counters: [u64; COUNTERS],
    drops: [u64; DROPS],
    load: Load,
}

impl Default for Reading {
    fn default() -> Self {
        Self { counters: [0; COUNTERS], drops: [0; DROPS], load: Load::default() }
    }
}

impl Reading {
    /// The value of a counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Packets dropped for a reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// How the lcore was loaded.
    #[must_use]
    pub const fn load(&self) -> Load {
        self.load
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Received packets that are not accounted for: zero for the sum over all lcores while no packet is
    /// handed off.
    #[must_use]
    pub fn unaccounted(&self) -> i128 {
        let accounted = self.get(Counter::Forwarded)
            + self.get(Counter::Absorbed)
            + self.get(Counter::Answered)
            + self.dropped_total();
        i128::from(self.get(Counter::Received)) - i128::from(accounted)
    }

    /// Slots that hold a partial.
    #[must_use]
    pub fn open_slots(&self) -> u64 {
        // A slot stops being open by completion or eviction, also by a cached result for the same PSN. A
        // partial that is evicted goes to the parameter server, or is discarded.
        [Counter::Completed, Counter::Evicted, Counter::DisplacedPartials]
            .into_iter()
            .fold(self.get(Counter::Opened), |open, end| open.saturating_sub(self.get(end)))
    }

    /// Slots that hold a cached result.
    #[must_use]
    pub fn done_slots(&self) -> u64 {
        (self.get(Counter::Completed) + self.get(Counter::Installed))
            .saturating_sub(self.get(Counter::DisplacedResults))
    }

    /// Adds another lcore's reading.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counters.iter_mut().zip(&other.counters) {
            *mine += theirs;
        }
        for (mine, theirs) in self.drops.iter_mut().zip(&other.drops) {
            *mine += theirs;
        }
        let (mine, theirs) = (self.load.to_array(), other.load.to_array());
        self.load = Load::from_array(core::array::from_fn(|index| mine[index] + theirs[index]));
    }
}

#[cfg(test)]
mod tests;
