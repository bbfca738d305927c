//! Some of an appliance's ports.

/// Ports by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ports(u32);

impl Ports {
    /// None.
    pub const NONE: Self = Self(0);

    /// An index is below this.
    pub const MOST: usize = 32;

    /// These; an index from [`MOST`](Self::MOST) on is none.
    #[must_use]
    pub fn of(ports: impl IntoIterator<Item = usize>) -> Self {
        ports.into_iter().fold(Self::NONE, Self::with)
    }

    const fn bit(port: usize) -> u32 {
        if port < Self::MOST { 1 << port } else { 0 }
    }

    /// The same, and this one.
    #[must_use]
    pub const fn with(self, port: usize) -> Self {
        Self(self.0 | Self::bit(port))
    }

    /// The same without this one.
    #[must_use]
    pub const fn without(self, port: usize) -> Self {
        Self(self.0 & !Self::bit(port))
    }

    /// True if this is one of them.
    #[must_use]
    pub const fn has(self, port: usize) -> bool {
        self.0 & Self::bit(port) != 0
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest, if there is one.
    #[must_use]
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }

    /// The only one, if there is exactly one.
    #[must_use]
    pub const fn only(self) -> Option<usize> {
        if self.0.is_power_of_two() { self.first() } else { None }
    }

    /// All of them, from the lowest on.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST).filter(move |&port| self.has(port))
    }
}
