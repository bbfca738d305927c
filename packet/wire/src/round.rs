//! How a result was agreed upon: the field `round` of Results, Reminders, and answers to a parameter
//! server's Reminder (protocol, section 11).
//!
//! Contributions are added as they come, so two sums of the same contributions can differ in their last bits.
//! A PSN may be summed twice, when all ranks send their contributions again before any has received the
//! result; then all ranks must take the same one of the two. Before the second one is sent, all ranks are
//! asked, under a number, the *round*. Each answers with the result that it has taken, which then counts; or
//! it promises to take only those of that round.

/// A sum of contributions that were all sent for the first time (made in the appliance), or an answer to a
/// request without a round.
pub const NONE: u16 = 0;
/// The rounds: from this number
pub const FIRST: u16 = 1;
/// to this.
pub const LAST: u16 = TAKEN - 1;
/// A rank has taken this result, or there can be no other: a rank that lacks it may take it, whatever it has
/// promised.
pub const TAKEN: u16 = u16::MAX;

/// True if a rank may take a result of this round, having last promised to take only those of round
/// `promised`; `NONE` if it has not promised anything.
#[must_use]
#[inline]
pub const fn admits(promised: u16, round: u16) -> bool {
    promised == NONE || round == TAKEN || round == promised
}

#[cfg(test)]
mod tests;
