/// How a worker's story ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Left,
    JoinFailed,
    Failed,
    Killed,
}

impl Ending {
    /// It came without warning.
    pub(crate) const fn is_sudden(self) -> bool {
        matches!(self, Self::Killed)
    }
}
