//! The numbers of a session's requests, which Acks repeat, so that a late answer to an earlier request is not
//! taken for the answer to a later one (protocol, section 9).

/// Numbers requests, and knows which answers are out of date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    /// The number of the latest request.
    latest: u32,
    /// Answers up to this one's are out of date.
    over: u32,
}

impl Requests {
    /// Continues the numbers; all requests so far are out of date.
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

    /// Answers to all requests so far are out of date.
    pub(crate) const fn outdate(&mut self) {
        self.over = self.latest;
    }

    /// True if a request with this number has been sent and an answer to it is not out of date. Numbers are
    /// serial numbers (RFC 1982). A number that was never sent was damaged on its way, or belongs to another
    /// life.
    pub(crate) const fn awaits(&self, number: u32) -> bool {
        let since = number.wrapping_sub(self.over);
        since != 0 && since <= self.latest.wrapping_sub(self.over)
    }
}

#[cfg(test)]
mod tests;
