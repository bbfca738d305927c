//! Finding out whether packets of full size get to the appliance, where short ones do.
//!
//! A gradient of another generation is refused whatever it holds, by an Ack that repeats its PSN: so it can
//! have any length without being added to anything. A stalled worker sends such packets of several lengths,
//! and sees which are refused. Only one of which the appliance says that its contributions do not arrive does
//! that: while others wait for a rank, all of them at once would ask for more refusals than the appliance
//! gives.

use core::fmt;

/// Lengths that are tried: that of a full packet, and shorter ones.
pub(crate) const LENGTHS: usize = 6;
/// Full packets do not get through once this many in a row were not answered ...
const TRIES: u8 = 4;
/// ... and of those of another length this part was, in quarters: the appliance does not answer each of them.
const ANSWERED: u8 = 3;
/// How far the PSNs of probes are from the worker's oldest one: no rank waits for them.
const FAR: u32 = 1 << 30;
/// Added to the epoch: no generation of the near past or future.
pub(crate) const EPOCH_AWAY: u16 = 0x8000;
/// Payloads of packets that fit into usual MTUs: 9,000, 1,500, 1,400 (tunnels; over IPv4, then over IPv6),
/// 1,280 (likewise), 576.
pub(crate) const COMMON: [u16; 7] = [8896, 1408, 1344, 1280, 1216, 1152, 512];
/// Those of them that probes have: each costs a refusal, and users only learn the length that gets through.
const PROBED: [u16; 5] = [8896, 1408, 1344, 1152, 512];

/// Which payload lengths get through to the appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// The length that does not.
    pub lost: u16,
    /// The longest of those tried that does.
    pub through: u16,
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, through } = self;
        write!(
            f,
            "this worker's packets with {lost} payload bytes do not get through to the appliance, and those \
             with {through} do: a path MTU below that (raise it, or start every rank with a payload of \
             {through} at most), or a firewall"
        )
    }
}

/// A probe to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) psn: u32,
    pub(crate) length: u16,
}

/// The lengths tried, and which were answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probes {
    /// From the longest on; 0 where there are fewer.
    lengths: [u16; LENGTHS],
    answered: [u8; LENGTHS],
    tries: u8,
    base: u32,
    turn: usize,
}

impl Probes {
    /// Begins anew, for packets of this payload length.
    pub(crate) fn begin(&mut self, full: u16, una: u32) {
        *self = Self { base: una.wrapping_add(FAR), ..Self::default() };
        let shorter = PROBED.into_iter().chain([8]).filter(|&length| length < full);
        for (place, length) in self.lengths.iter_mut().zip([full].into_iter().chain(shorter)) {
            *place = length;
        }
        // The shortest of all is the one that must get through.
        if full > 8 && !self.lengths.contains(&8) {
            self.lengths[LENGTHS - 1] = 8;
        }
    }

    /// Whether none has been sent.
    pub(crate) const fn is_idle(&self) -> bool {
        self.turn == 0
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Option<Probe> {
        let place = self.turn % LENGTHS;
        self.turn += 1;
        self.tries = self.tries.saturating_add(u8::from(place == 0));
        let length = self.lengths[place];
        let psn = u32::try_from(place).ok().map(|place| self.base.wrapping_add(place));
        psn.filter(|_| length > 0).map(|psn| Probe { psn, length })
    }

    /// Whether a refusal of this PSN is the answer to a probe.
    pub(crate) fn answers(&mut self, psn: u32) -> bool {
        let place = usize::try_from(psn.wrapping_sub(self.base)).ok().filter(|&place| place < LENGTHS);
        let place = place.filter(|&place| self.turn > 0 && self.lengths[place] > 0);
        if let Some(place) = place {
            self.answered[place] = self.answered[place].saturating_add(1);
        }
        place.is_some()
    }

    /// The lengths lost and through, if full packets do not get through and shorter ones do.
    pub(crate) fn passage(&self) -> Option<Passage> {
        let often = |answered: u8| 4 * u16::from(answered) >= u16::from(ANSWERED) * u16::from(self.tries);
        let mut through = self.lengths.iter().zip(self.answered).filter(|(_, answered)| often(*answered));
        let through = through.next().map(|(length, _)| *length)?;
        let lost = self.lengths[0];
        let none = self.answered[0] == 0 && self.tries > TRIES;
        (through < lost && none).then_some(Passage { lost, through })
    }
}

#[cfg(test)]
mod tests;
