//! What the bridges between more than two ports have learned: behind which port a station is, which is a MAC
//! in a VLAN.
//!
//! All lcores share one table, since a flow and its answers may reach different ones. A place in it is one
//! word (MAC, port, when it was last heard), so that no lcore sees half of an entry or waits: one that
//! loses a race learns with the next frame. A MAC that two bridges have heard has an entry for each, told
//! apart by the port. The word has no room for the VLAN: the set says it. There are at least as many sets as
//! VLANs, and those of a MAC's VLANs are all different.

mod ports;
mod station;

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;

use pascaline_wire::frame::ETH_LEN;

pub use ports::Ports;
pub use station::{Station, receiver, sender};

/// Places of a set: one cache line.
const WAYS: usize = 8;
/// Sets at the least: one for each VLAN.
const SETS: usize = 1 << 12;
/// A tick is 2³⁰ ns, a bit more than a second.
const TICK: u32 = 30;
/// Ticks wrap around at 2048. Entries of any age are swept away long before one could look young again.
const STAMP: u64 = (1 << 11) - 1;
const PORT_SHIFT: u32 = 11;
const MAC_SHIFT: u32 = 16;
/// The ethertype of LLDP (IEEE 802.1AB).
const LLDP: [u8; 2] = [0x88, 0xcc];

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// What came of hearing a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is there where it was.
    Known,
    /// It is new.
    Learned,
    /// It was behind another port.
    Moved,
    /// It found no place.
    Full,
}

/// Stations and the ports that they are behind.
#[derive(Debug)]
pub struct Bridge {
    sets: Box<[Set]>,
    /// Ticks after which what has not been heard is forgotten.
    age: u64,
    /// The next set to be swept.
    swept: AtomicUsize,
}

impl Bridge {
    /// Of no bridge: it remembers nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { sets: Box::default(), age: 0, swept: AtomicUsize::new(0) }
    }

    /// Places of the smallest table.
    pub const LEAST: usize = SETS * WAYS;

    /// Room for at least this many stations, which are forgotten when nothing has been heard of them for
    /// this long: up to 1,000 s.
    #[must_use]
    pub fn new(stations: usize, age: Duration) -> Self {
        let sets = stations.div_ceil(WAYS).next_power_of_two().max(SETS);
        let age = (age.as_nanos() >> TICK).clamp(1, (1000 * 1_000_000_000) >> TICK);
        Self {
            sets: (0..sets).map(|_| Set::default()).collect(),
            age: u64::try_from(age).unwrap_or(1),
            swept: AtomicUsize::new(0),
        }
    }

    /// Notes that a frame of a station came in at a port of a bridge. Groups send nothing: they are not
    /// learned.
    pub fn hear(&self, station: Station, port: usize, bridge: Ports, now: u64) -> Heard {
        let key = station.key();
        if station.mac.is_group() || key == 0 {
            return Heard::Known;
        }
        let wanted = key << MAC_SHIFT | (port as u64) << PORT_SHIFT | now >> TICK & STAMP;
        let mut free = None;
        for place in self.set(station) {
            let entry = place.load(Relaxed);
            if entry >> MAC_SHIFT == key && bridge.has(port_of(entry)) {
                // Once a tick, so that lcores do not take the line from each other for each frame.
                if entry != wanted {
                    let _ = place.compare_exchange(entry, wanted, Relaxed, Relaxed);
                }
                return if port_of(entry) == port { Heard::Known } else { Heard::Moved };
            }
            if free.is_none() && (entry == 0 || self.is_old(entry, now)) {
                free = Some((place, entry));
            }
        }
        match free {
            Some((place, entry)) if place.compare_exchange(entry, wanted, Relaxed, Relaxed).is_ok() => {
                Heard::Learned
            }
            // Another lcore has taken the place: the next frame learns it.
            Some(_) => Heard::Known,
            None => Heard::Full,
        }
    }

    /// The port of a bridge that a station is behind, if that is known.
    #[must_use]
    pub fn find(&self, station: Station, bridge: Ports, now: u64) -> Option<usize> {
        let key = station.key();
        // Places without an entry are zero, too.
        if key == 0 {
            return None;
        }
        let mut entries = self.set(station).iter().map(|place| place.load(Relaxed));
        let is_it = |&entry: &u64| {
            entry >> MAC_SHIFT == key && bridge.has(port_of(entry)) && !self.is_old(entry, now)
        };
        entries.find(is_it).map(port_of)
    }

    /// Forgets the stations behind a port, because its link is down: frames for it go to all other ports
    /// until it is heard again. Looks at the whole table, so it is not for lcores.
    pub fn forget(&self, port: usize) {
        for place in self.sets.iter().flat_map(|set| &set.0) {
            let entry = place.load(Relaxed);
            if entry != 0 && port_of(entry) == port {
                // Unless it has been heard at another port meanwhile.
                let _ = place.compare_exchange(entry, 0, Relaxed, Relaxed);
            }
        }
    }

    /// Forgets what is old in the next set. Called by every lcore, all the time.
    pub fn sweep(&self, now: u64) {
        if self.sets.is_empty() {
            return;
        }
        let next = self.swept.fetch_add(1, Relaxed);
        let Some(set) = self.sets.get(next & (self.sets.len() - 1)) else { return };
        for place in &set.0 {
            let entry = place.load(Relaxed);
            if entry != 0 && self.is_old(entry, now) {
                // Unless it has just been heard again.
                let _ = place.compare_exchange(entry, 0, Relaxed, Relaxed);
            }
        }
    }

    fn set(&self, station: Station) -> &[AtomicU64] {
        let spread = station.key().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let first = usize::try_from(spread).unwrap_or(0);
        let at = first.wrapping_add(station.vlan.into()) & self.sets.len().saturating_sub(1);
        self.sets.get(at).map_or(&[], |set| &set.0)
    }

    /// A clock of another lcore that is a tick ahead makes nothing old.
    const fn is_old(&self, entry: u64, now: u64) -> bool {
        let since = (now >> TICK).wrapping_sub(entry) & STAMP;
        since > self.age && since < STAMP
    }
}

/// True for a frame that no bridge passes on: to an address that is reserved for what is at the other end of
/// the cable (IEEE 802.1D, Table 7-10). LLDP passes all the same, as between two ports, so that neighbours
/// see each other through the appliance.
#[must_use]
pub fn is_reserved(head: &[u8; ETH_LEN]) -> bool {
    let to_reserved = head.starts_with(&[0x01, 0x80, 0xc2, 0, 0]) && head[5] < 0x10;
    to_reserved && !(head[5] == 0x0e && head.ends_with(&LLDP))
}

const fn port_of(entry: u64) -> usize {
    (entry >> PORT_SHIFT) as usize & (Ports::MOST - 1)
}

#[cfg(test)]
mod tests;
