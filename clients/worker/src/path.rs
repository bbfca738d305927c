//! Whether packets of full size get through to the appliance and back, found out while joining.
//!
//! A Join may be padded with zeros, and the Ack to it is as long. So the first one is as long as a full
//! packet, or as a Join can be: if its Ack is, too, such packets get through, and nothing has been lost by
//! asking. Longer ones are not looked at: the ranks seldom agree on any. If its Ack is not as long, long
//! and short Joins take turns, and where short ones are answered and long ones are not, shorter packets are
//! tried: what the appliance's ports take, which its Acks say to a worker that only asks, at once; otherwise
//! common lengths. Until it is known the Joins only ask, so that a rank counts with a payload that gets
//! through.

use core::fmt;

use pascaline_wire::control;

use crate::identity::CONTROL_LEN;
use crate::probe::COMMON;

/// Long Joins in a row without an Ack as long, after which packets of this length are given up if a short
/// Join was answered.
const TRIES: u8 = 4;

/// Payloads are whole ones.
const CACHE_LINE: u16 = 64;

/// Payload bytes of a packet that is as long as the longest Join.
#[expect(clippy::cast_possible_truncation, reason = "that of jumbo frames")]
const LONGEST: u16 = (control::LEN + control::MAX_PADDING) as u16;

/// Packets did not get through, and shorter ones are sent instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortened {
    /// Payload bytes of those that did not.
    pub lost: u16,
    /// Payload bytes of those that are sent instead.
    pub payload: u16,
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, payload } = self;
        write!(
            f,
            "packets with {lost} payload bytes do not get through to the appliance and back: continuing with \
             {payload}. The appliance's port (`mtu`) or something in between takes no longer ones"
        )
    }
}

/// The state of the path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// Payload bytes of a full packet.
    payload: u16,
    open: bool,
    /// Long Joins in a row without an Ack as long.
    lost: u8,
    /// A short one has been answered meanwhile.
    short: bool,
    /// The next Join is a long one.
    long: bool,
    /// Payload bytes that the appliance's ports take, in whole cache lines; 0 if it has not said.
    most: u16,
    /// Bytes by which packets are longer than header and payload.
    longer: u16,
    news: Option<Shortened>,
}

impl Path {
    /// Nothing is known yet.
    pub(crate) const fn of(payload: u16) -> Self {
        let open = payload as usize <= control::LEN;
        Self { payload, open, lost: 0, short: false, long: true, most: 0, longer: 0, news: None }
    }

    /// The same, of packets that are longer by this many bytes.
    pub(crate) const fn longer(self, by: u16) -> Self {
        Self { longer: by, ..self }
    }

    /// The same path, of which nothing is known again.
    pub(crate) const fn anew(&self, payload: u16) -> Self {
        Self::of(payload).longer(self.longer)
    }

    /// True once full packets are known to get through, or nothing shorter is left to be tried.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// Payload bytes of a full packet.
    pub(crate) const fn payload(&self) -> u16 {
        self.payload
    }

    /// Payload bytes of a packet that is as long as a long Join.
    fn tried(&self) -> u16 {
        self.payload.min(LONGEST)
    }

    /// Tries shorter packets, if those do not get through. True if there are any.
    pub(crate) fn shorten(&mut self) -> bool {
        let told = Some(self.most).filter(|&most| most > 0 && most < self.tried());
        if self.open || told.is_none() && (self.lost < TRIES || !self.short) {
            return false;
        }
        let shorter = self.longer.next_multiple_of(8);
        let common =
            || COMMON.into_iter().map(|length| length - shorter).find(|&length| length < self.payload);
        let Some(payload) = told.or_else(common) else {
            self.open = true;
            return false;
        };
        let lost = self.news.map_or(self.tried(), |news| news.lost);
        *self = Self { news: Some(Shortened { lost, payload }), ..self.anew(payload) };
        true
    }

    /// How many zeros the next Join has at its end.
    pub(crate) fn padding(&mut self) -> usize {
        let long = self.long;
        self.long = !long;
        if self.open || !long {
            return 0;
        }
        self.lost = self.lost.saturating_add(1);
        usize::from(self.tried()) - control::LEN
    }

    /// An Ack says how much the appliance's ports take; 0 if it does not.
    pub(crate) const fn limit(&mut self, most: u16) {
        self.most = most / CACHE_LINE * CACHE_LINE;
    }

    /// The Ack to a Join has come, in a datagram of `datagram` bytes. True if that opens the path.
    pub(crate) fn answered(&mut self, datagram: usize) -> bool {
        let long = datagram >= CONTROL_LEN - control::LEN + usize::from(self.tried());
        self.short |= !long;
        let opens = long && !self.open;
        self.open |= long;
        opens
    }

    /// The warning that is not reported yet, once it is known which packets get through.
    pub(crate) fn take_warning(&mut self) -> Option<Shortened> {
        if self.open { self.news.take() } else { None }
    }
}

#[cfg(test)]
mod tests;
