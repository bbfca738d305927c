//! The numbers of a session's requests, which Acks repeat: so that an answer to what was asked before
//! something changed is not taken for an answer to what was asked since (protocol, section 9).

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

    /// True if a request with this number has been sent and an answer to it is not out of date. Numbers are
    /// serial numbers (RFC 1982). One that was never sent is no answer's: it was damaged on its way, or
    /// belongs to another life.
    pub(crate) const fn awaits(&self, number: u32) -> bool {
        let since = number.wrapping_sub(self.over);
        since != 0 && since <= self.latest.wrapping_sub(self.over)
    }
}

#[cfg(test)]
mod tests;
