//! Steering: brings packets to receive queues by their UDP destination port.
//!
//! A device may support two ways, one or none: a flow rule for each port (`rte_flow`), or RSS over the
//! destination port alone, with a key and a table that map each port to its queue.

use core::fmt;

use pascaline_dpdk_sys as sys;

use crate::error::Errno;

/// Consecutive UDP ports that lead to the receive queues in turn: the first to queue 0, the next to queue 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steer {
    /// The first port, a multiple of their number.
    pub first: u16,
    /// How many there are: a power of two.
    pub count: u16,
    /// Over IPv4.
    pub ipv4: bool,
    /// Over IPv6.
    pub ipv6: bool,
}

/// How packets are brought to queues by their UDP destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steering {
    /// Not steered: not asked for, or not possible.
    #[default]
    None,
    /// By RSS over the destination port alone.
    Rss,
    /// By a flow rule for each port.
    Rules,
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Rss => "RSS by destination port",
            Self::Rules => "flow rules",
        })
    }
}

/// Gives a started port a rule for each UDP port; all or none.
pub(super) fn rules(port: u16, steer: &Steer, queues: u16) -> Result<(), Errno> {
    let made = make_rules(port, steer, queues);
    if made.is_err() {
        forget(port);
    }
    made
}

fn make_rules(port: u16, steer: &Steer, queues: u16) -> Result<(), Errno> {
    // Rules of an earlier start may have outlived it.
    forget(port);
    for at in 0..steer.count {
        for (wanted, ipv6) in [(steer.ipv4, 0), (steer.ipv6, 1)] {
            if wanted {
                // SAFETY: the caller has the control functions of this started port to itself; arguments are
                // numbers.
                let status = unsafe { sys::psc_steer_udp(port, ipv6, steer.first + at, at % queues) };
                Errno::check(status)?;
            }
        }
    }
    Ok(())
}

fn forget(port: u16) {
    // SAFETY: as above; the port is started, and no error is needed. A driver without rules returns an error,
    // which is expected.
    let _ = unsafe { sys::rte_flow_flush(port, core::ptr::null_mut()) };
}

/// Most entries of a redirection table (`RTE_ETH_RSS_RETA_SIZE_512`).
const MOST_ENTRIES: u16 = 512;

/// Longest key that devices take: 52 bytes (i40e, ice); with room to spare.
const LONGEST_KEY: usize = 64;

/// A hash key that puts a port's lowest bits into the lowest bits of the Toeplitz hash, in reverse order.
///
/// The hash is linear in its input's bits, and the key repeats every 16 bits. So it does not matter at which
/// 16-bit word of the input the port stands; the device may put zeros for addresses and source port before
/// it, or nothing. One bit of each 16 is set: bit *b* of the hash is bit *n* − 1 − *b* of the port, for 2ⁿ
/// ports.
#[derive(Debug)]
pub(super) struct Key {
    bytes: [u8; LONGEST_KEY],
    len: u8,
}

impl Key {
    /// For `ports` ports. The device wants `len` bytes, or 0 if it does not say.
    pub(super) fn new(count: u16, len: u8) -> Self {
        let [high, low] = (0x8000_u16 >> (15 - count.trailing_zeros().min(15))).to_be_bytes();
        let mut bytes = [low; LONGEST_KEY];
        bytes.iter_mut().step_by(2).for_each(|byte| *byte = high);
        Self { bytes, len: if len == 0 { 40 } else { len.min(64) } }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..usize::from(self.len)).unwrap_or_default()
    }
}

/// The queue of each entry of a redirection table, for the hash of [`Key`]. `None` if the table is too small
/// to tell the ports apart, or larger than any.
fn table(steer: &Steer, queues: u16, size: u16) -> Option<Vec<u16>> {
    let bits = steer.count.trailing_zeros();
    if size < steer.count || size > MOST_ENTRIES {
        return None;
    }
    let place = |entry: u16| entry.reverse_bits().checked_shr(16 - bits).unwrap_or(0);
    Some((0..size).map(|entry| place(entry) % queues).collect())
}

/// Makes a started port, whose hash is over the destination port alone, choose queues by it.
pub(super) fn redirect(port: u16, steer: &Steer, queues: u16, size: u16) -> Result<(), Errno> {
    let table = table(steer, queues, size).ok_or(Errno::NOTSUP)?;
    // SAFETY: the caller has the control functions of this started port to itself; the table has `size`
    // entries and is read only.
    Errno::check(unsafe { sys::psc_reta_set(port, table.as_ptr(), size) })
}

#[cfg(test)]
mod tests;
