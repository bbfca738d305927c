//! How much a rank's packets hold, and what all ranks agree on.

use pascaline_wire::control::AT_MOST;

/// Payloads in whole cache lines begin and end with one.
const LINE: u16 = 64;

/// What a Join says of its sender's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    bytes: u16,
    /// Whether it takes shorter ones.
    at_most: bool,
}

impl Offer {
    /// As a Join's `payload` says it; `None` if nothing can be sent so.
    pub(super) const fn of(said: u16) -> Option<Self> {
        let (bytes, at_most) = (said & !AT_MOST, said & AT_MOST != 0);
        if bytes > 0 && bytes.is_multiple_of(8) { Some(Self { bytes, at_most }) } else { None }
    }

    /// Packets of this payload and of no other.
    pub(super) const fn exactly(bytes: u16) -> Self {
        Self { bytes, at_most: false }
    }

    /// As a Join says it, of ranks that have agreed on `payload` and could go on with less.
    pub(super) const fn said(payload: u16, at_most: bool) -> u16 {
        if at_most { payload | AT_MOST } else { payload }
    }

    pub(super) const fn bytes(self) -> u16 {
        self.bytes
    }

    pub(super) const fn takes_less(self) -> bool {
        self.at_most
    }

    pub(super) const fn takes(self, payload: u16) -> bool {
        payload == self.bytes || self.at_most && payload < self.bytes
    }
}

/// What all of them are to send, if they can agree: what one insists on, else as much as all take and is no
/// longer than `limit`. `None` of nobody.
pub(super) fn agreed(offers: impl Iterator<Item = Offer> + Clone, limit: u16) -> Option<u16> {
    let told = offers.clone().find(|offer| !offer.at_most);
    told.map(Offer::bytes).or_else(|| Some(whole(offers.map(Offer::bytes).min()?.min(limit))))
}

/// In whole cache lines, or below one in whole elements.
const fn whole(bytes: u16) -> u16 {
    if bytes < LINE { bytes / 8 * 8 } else { bytes / LINE * LINE }
}

#[cfg(test)]
mod tests;
