//! The numbers of the generations that form here.

/// How far they are from the parent's, at least: enough for five levels.
pub(super) const APART: u16 = 0x3000;
/// How many there are, from there on.
pub(super) const NUMBERS: u16 = APART / 2;

#[derive(Debug)]
pub(in crate::membership) struct Numbers {
    /// The parent's number of its generation, whatever session has been told of it.
    pub(super) known: Option<u16>,
    /// The number of the latest generation that was to form here, and which of them was the first.
    formed: Option<u16>,
    begins: u16,
    /// That of the latest generation that was complete here.
    pub(in crate::membership) complete: Option<u16>,
}

impl Numbers {
    pub(super) fn new(session: u64) -> Self {
        let begins = u16::try_from(session % u64::from(NUMBERS)).unwrap_or(0);
        Self { known: None, formed: None, begins, complete: None }
    }

    /// The number for the next generation that forms here, after the one numbered `before`: far from the
    /// parent's, and so from those that workers have been in; each level is as far from the one above it. It
    /// is another one than those of the generations before, as far as may be, also where this appliance was
    /// started anew: a Join that is still under way names one of those, and so do heartbeats of whoever is in
    /// one, which would make their senders members that start from nothing. `None` until the parent has said
    /// its own.
    pub(in crate::membership) fn next(&mut self, before: u16) -> Option<u16> {
        let first = self.known?.wrapping_add(APART);
        let since = self.formed.map(|formed| formed.wrapping_sub(first)).filter(|since| *since < NUMBERS);
        let next = since.map_or(self.begins, |since| since + 1);
        let mut numbers = (next..=next + 2).map(|next| first.wrapping_add(next % NUMBERS));
        self.formed = numbers.find(|&number| number != before && Some(number) != self.complete);
        self.formed
    }
}
