//! Leaves with servers, and spines: a folded Clos network whose links are all alike.

use super::Link;

/// Its shape. With as many spines as servers to a leaf nothing blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clos {
    /// Leaves.
    pub leaves: usize,
    /// Servers of each.
    pub servers: usize,
    /// Spines.
    pub spines: usize,
}

impl Clos {
    /// As many servers and spines as leaves.
    #[must_use]
    pub const fn square(side: usize) -> Self {
        Self { leaves: side, servers: side, spines: side }
    }

    /// All servers.
    #[must_use]
    pub const fn hosts(&self) -> usize {
        self.leaves * self.servers
    }

    /// All links, each like this one.
    #[must_use]
    pub fn links(&self, link: Link) -> Vec<Link> {
        vec![link; 2 * self.hosts() + 2 * self.leaves * self.spines]
    }

    /// The leaf of a server.
    #[must_use]
    pub const fn leaf(&self, server: usize) -> usize {
        server / self.servers
    }

    /// From a server to its leaf.
    #[must_use]
    pub const fn up(&self, server: usize) -> usize {
        server
    }

    /// From its leaf to a server.
    #[must_use]
    pub const fn down(&self, server: usize) -> usize {
        self.hosts() + server
    }

    /// From a leaf to a spine.
    #[must_use]
    pub const fn climb(&self, leaf: usize, spine: usize) -> usize {
        2 * self.hosts() + leaf * self.spines + spine
    }

    /// From a spine to a leaf.
    #[must_use]
    pub const fn descend(&self, spine: usize, leaf: usize) -> usize {
        2 * self.hosts() + self.leaves * self.spines + leaf * self.spines + spine
    }

    /// The link after `hop` hops on the way from one server to another, over a spine if they have different
    /// leaves; `None` at the end.
    #[must_use]
    pub const fn hop(&self, from: usize, to: usize, spine: usize, hop: u8) -> Option<usize> {
        match (hop, self.leaf(from) == self.leaf(to)) {
            (0, _) => Some(self.up(from)),
            (1, true) | (3, false) => Some(self.down(to)),
            (1, false) => Some(self.climb(self.leaf(from), spine)),
            (2, false) => Some(self.descend(spine, self.leaf(to))),
            _ => None,
        }
    }
}
