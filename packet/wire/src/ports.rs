//! The UDP ports that an appliance listens on, and the port of each PSN.
//!
//! With several ports, a device that reads only up to the UDP header (a NIC, a switch) can distinguish PSNs
//! by their lowest bits, and bring each to the lcore that owns it.

/// The most ports that an appliance listens on.
pub const MAX_UDP_PORTS: u16 = 64;

/// UDP ports in a row: a power of two of them, the first one a multiple of their number. So whether a port is
/// one of them is decided by its upper bits, and which one it is by the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPorts {
    first: u16,
    /// The bits in which all of them agree.
    mask: u16,
}

/// Why such ports are not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UdpPortsError {
    /// Not a power of two, or too many.
    #[error("{count} UDP ports: must be a power of two, at most {MAX_UDP_PORTS}")]
    Count {
        /// As given.
        count: u16,
    },
    /// Ports of other programs would be among them.
    #[error("{count} UDP ports from {first} on: the first must be a multiple of their number")]
    First {
        /// The first one.
        first: u16,
        /// Their number.
        count: u16,
    },
}

impl UdpPorts {
    /// One port, for all PSNs.
    #[must_use]
    pub const fn single(port: u16) -> Self {
        Self { first: port, mask: u16::MAX }
    }

    /// This many ports, from this one on.
    ///
    /// # Errors [`UdpPortsError`]: which of the two numbers is not possible.
    pub const fn new(first: u16, count: u16) -> Result<Self, UdpPortsError> {
        if !count.is_power_of_two() || count > MAX_UDP_PORTS {
            return Err(UdpPortsError::Count { count });
        }
        if !first.is_multiple_of(count) {
            return Err(UdpPortsError::First { first, count });
        }
        Ok(Self { first, mask: !(count - 1) })
    }

    /// The first one: the port of all packets without a PSN.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u16 {
        !self.mask + 1
    }

    /// The bits of a port number in which all of them agree.
    #[must_use]
    pub const fn mask(self) -> u16 {
        self.mask
    }

    /// Whether a port is one of them.
    #[must_use]
    #[inline]
    pub const fn has(self, port: u16) -> bool {
        (port ^ self.first) & self.mask == 0
    }

    /// The port of a PSN: the first one, plus the PSN modulo their number.
    #[must_use]
    #[inline]
    pub const fn of(self, psn: u32) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are what counts")]
        let low = psn as u16;
        self.first | (low & !self.mask)
    }
}

#[cfg(test)]
mod tests;
