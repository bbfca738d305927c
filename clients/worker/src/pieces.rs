//! Tensors that are made while they are sent.

/// What travels in place of a user's tensor, piece by piece: for drivers, so that a rank's processor works
/// while its link does. A driver that cannot do so fills all of it before it sends.
pub trait Pieces {
    /// Makes the first `until` bytes of what travels, or more. Called before they are read.
    fn fill(&mut self, travels: &mut [u8], until: usize);

    /// Uses the first `until` bytes of what travels, which have their results and do not change any more. It
    /// may leave some for later.
    fn take(&mut self, travels: &[u8], until: usize);
}
