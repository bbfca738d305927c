//! The numbers of a session's requests, which Acks repeat: so that an answer to what was asked before something changed is
//! not taken for an answer to what was asked since (protocol, section 9).

/// Numbers requests, and knows which answers are out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    /// The number of the latest request.
    latest: u32,
    /// Answers up to this one's are out of date.
    over: u32,
}

impl Requests {
    /// Goes on after requests that are all out of date.
    pub(crate) const fn after(latest: u32) -> Self {
        Self { latest, over: latest }
    }

    /// The number of the next request.
    pub(crate) const fn next(&mut self) -> u32 {
        self.latest = self.latest.wrapping_add(1);
        self.latest
    }

    /// The number of the latest request; 0 before the first.
    pub(crate) const fn latest(&self) -> u32 {
        self.latest
    }

    /// Whatever has been asked so far, the answers to come are out of date.
    pub(crate) const fn outdate(&mut self) {
        self.over = self.latest;
    }

    /// True if an answer with this number is out of date. Numbers are serial numbers (RFC 1982).
    pub(crate) const fn is_late(&self, number: u32) -> bool {
        number.wrapping_sub(self.over).wrapping_sub(1) >= 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::Requests;

    #[test]
    fn answers_to_what_was_asked_before_are_late() {
        let mut requests = Requests::after(u32::MAX - 1);
        assert!(requests.is_late(u32::MAX - 1) && requests.is_late(0x8000_0000));
        assert_eq!((requests.next(), requests.next()), (u32::MAX, 0));
        assert!(!requests.is_late(u32::MAX) && !requests.is_late(0));
        requests.outdate();
        assert!(requests.is_late(u32::MAX) && requests.is_late(0));
        assert_eq!((requests.next(), requests.latest()), (1, 1));
        assert!(!requests.is_late(1));
    }
}
