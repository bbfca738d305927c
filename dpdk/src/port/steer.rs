//! Bringing packets to receive queues by their UDP destination port.
//!
//! Two ways, of which a device may know one, both or none: a flow rule for each port (`rte_flow`), or RSS over the destination port
//! alone, with a key and a table that make of a hash what a rule would say.

use core::fmt;

use pascaline_dpdk_sys as sys;

use crate::error::Errno;

/// UDP ports in a row, to be brought to the receive queues in turn: the first to queue 0, the next one to queue 1.
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
    /// They are not: nobody has asked for it, or the device cannot.
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
                // SAFETY: the caller has the control functions of this started port to itself; arguments are numbers.
                let status = unsafe { sys::psc_steer_udp(port, ipv6, steer.first + at, at % queues) };
                Errno::check(status)?;
            }
        }
    }
    Ok(())
}

fn forget(port: u16) {
    // SAFETY: as above; the port is started, and no error is wanted. A driver without rules says so, which is no news.
    let _ = unsafe { sys::rte_flow_flush(port, core::ptr::null_mut()) };
}

/// Most entries of a redirection table (`RTE_ETH_RSS_RETA_SIZE_512`).
const MOST_ENTRIES: u16 = 512;

/// Longest key that devices take: 52 bytes (i40e, ice); with room to spare.
const LONGEST_KEY: usize = 64;

/// A hash key with which the lowest bits of a Toeplitz hash are those of the port, in the opposite order.
///
/// The hash is linear in the bits of its input, and the key repeats every 16 bits. So it is the same wherever among the
/// input's 16-bit words the port stands, which is the device's affair: before it may be addresses and a source port that count as
/// zeros, or nothing. One bit of each 16 is set: bit *b* of the hash is then bit *n* − 1 − *b* of the port, for 2ⁿ ports.
#[derive(Debug)]
pub(super) struct Key {
    bytes: [u8; LONGEST_KEY],
    len: u8,
}

impl Key {
    /// For so many ports; `len` bytes as the device wants them, 0 if it does not say.
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

/// The queue of each entry of a redirection table of this size, for the hash that [`Key`] makes. `None` if the table is too small to
/// tell the ports apart, or larger than any.
fn table(steer: &Steer, queues: u16, size: u16) -> Option<Vec<u16>> {
    let bits = steer.count.trailing_zeros();
    if size < steer.count || size > MOST_ENTRIES {
        return None;
    }
    let place = |entry: u16| entry.reverse_bits().checked_shr(16 - bits).unwrap_or(0);
    Some((0..size).map(|entry| place(entry) % queues).collect())
}

/// Has a started port, whose hash is over the destination port alone, choose queues by it.
pub(super) fn redirect(port: u16, steer: &Steer, queues: u16, size: u16) -> Result<(), Errno> {
    let table = table(steer, queues, size).ok_or(Errno::NOTSUP)?;
    // SAFETY: the caller has the control functions of this started port to itself; the table has `size` entries and is read only.
    Errno::check(unsafe { sys::psc_reta_set(port, table.as_ptr(), size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash as devices make it: for each bit of the input that is set, the 32 bits of the key from there on.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1 == 1;
        let window = |at: usize| (0..32).fold(0, |word, next| word << 1 | u32::from(bit(key, at + next)));
        (0..8 * input.len()).filter(|&at| bit(input, at)).fold(0, |hash, at| hash ^ window(at))
    }

    #[test]
    fn the_reference_hash_is_that_of_the_specification() {
        // Microsoft's "Verifying the RSS hash calculation", the first row with ports.
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
            0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
            0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let (ports, addresses) = ([2794_u16, 1766], [66, 9, 149, 187, 161, 142, 100, 80]);
        let ports: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        assert_eq!(toeplitz(&key, &[&addresses[..], &ports].concat()), 0x51cc_c178);
    }

    #[test]
    fn every_port_comes_to_its_queue_wherever_the_device_puts_it() {
        for (first, count) in [(16_420, 2), (16_420, 4), (16_448, 64), (0xfff0, 16)] {
            let steer = Steer { first, count, ipv4: true, ipv6: true };
            for (len, size) in [(0, 64), (40, 128), (52, 512)] {
                let mut key = Key::new(count, len);
                for queues in [2, 3, 4] {
                    let table = table(&steer, queues, size).unwrap();
                    // Alone; behind the source port; behind addresses of IPv4, of IPv6.
                    for zeros in [0, 2, 10, 34] {
                        for at in 0..count {
                            let input = [&vec![0; zeros][..], &(first + at).to_be_bytes()].concat();
                            let hash = toeplitz(key.bytes(), &input);
                            let entry = hash as usize % usize::from(size);
                            assert_eq!(
                                table[entry],
                                at % queues,
                                "{at} of {count} from {first}, {queues} queues"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_table_that_is_too_small_is_not_used() {
        let steer = Steer { first: 16_448, count: 64, ipv4: true, ipv6: true };
        assert!(table(&steer, 2, 32).is_none());
        assert!(table(&steer, 2, 0).is_none());
        assert!(table(&steer, 2, 1024).is_none());
    }
}
