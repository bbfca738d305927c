/// How a worker's story ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Left,
    JoinFailed,
    Failed,
    Killed,
}

impl Ending {
    /// Nothing had led to it.
    pub(crate) const fn is_sudden(self) -> bool {
        matches!(self, Self::Killed)
    }
}
