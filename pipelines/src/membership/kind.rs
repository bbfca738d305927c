//! Kinds of jobs (docs/policies.md, "Kinds").

use core::time::Duration;

use pascaline_aggregator::{ConflictPolicy, Order, Policy, Region};
use pascaline_wire::frame::Address;

use super::registration::Registry;
use super::spec::ServerMode;
use crate::jobs::Mode;

/// A job's kind, with the settings that only jobs of this kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Sums of all ranks, in slots of the job's own (synchronous aggregation: DSA, section II.A).
    Region {
        /// Its slots.
        place: Region,
        /// When contributions are added.
        order: Order,
    },
    /// Sums of all ranks, in slots that all such jobs share (statistical aggregation: DSA, section II.A).
    Shared {
        /// The rule for conflicts about a slot.
        conflict: ConflictPolicy,
        /// When contributions are added.
        order: Order,
        /// Partials at the same time; 0 for any number.
        quota: u32,
        /// The parameter server that completes sums without a slot.
        server: ServerMode,
    },
    /// Sums that may be complete before all ranks are in them, in slots of the job's own (iSwitch, section 3;
    /// PANAMA, section 4).
    Early {
        /// Its slots.
        place: Region,
        /// Contributions that complete a PSN, as long as SetH does not change it. Taken to be at least 1 and
        /// at most the fan-in.
        needed: u16,
        /// The time after which a PSN is complete with the contributions inside.
        partial_after: Option<Duration>,
    },
    /// No sums: each rank sends an update when it has one (Olaf).
    Updates {
        /// The parameter server that trains the model; none below a parent.
        server: ServerMode,
    },
    /// Sums of `SwitchML`'s own clients, which register and cannot join.
    Switchml {
        /// Its slots: a set for each that the clients name.
        place: Region,
        /// How they register.
        registry: Registry,
    },
}

impl Default for JobKind {
    /// [`Shared`](Self::Shared): first come, first served, in the order of arrival, without limit or server.
    fn default() -> Self {
        let (conflict, order) = (ConflictPolicy::default(), Order::default());
        Self::Shared { conflict, order, quota: 0, server: ServerMode::None }
    }
}

impl JobKind {
    /// How its workers train together.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        if matches!(self, Self::Updates { .. }) { Mode::Olaf } else { Mode::Sync }
    }

    /// Its own slots.
    #[must_use]
    pub const fn place(&self) -> Option<Region> {
        match *self {
            Self::Region { place, .. } | Self::Early { place, .. } | Self::Switchml { place, .. } => {
                Some(place)
            }
            Self::Shared { .. } | Self::Updates { .. } => None,
        }
    }

    /// The same in other slots; unchanged if it has none of its own.
    #[must_use]
    pub const fn placed(mut self, at: Region) -> Self {
        if let Self::Region { place, .. } | Self::Early { place, .. } | Self::Switchml { place, .. } =
            &mut self
        {
            *place = at;
        }
        self
    }

    /// When contributions are added.
    #[must_use]
    pub const fn order(&self) -> Order {
        match *self {
            Self::Region { order, .. } | Self::Shared { order, .. } => order,
            Self::Early { .. } | Self::Updates { .. } | Self::Switchml { .. } => Order::Arrival,
        }
    }

    /// Where its parameter server is.
    #[must_use]
    pub const fn server(&self) -> ServerMode {
        match *self {
            Self::Shared { server, .. } | Self::Updates { server } => server,
            Self::Region { .. } | Self::Early { .. } | Self::Switchml { .. } => ServerMode::None,
        }
    }

    /// The address and UDP port of one that is a process of its own.
    #[must_use]
    pub const fn server_at(&self) -> Option<(Address, u16)> {
        match self.server() {
            ServerMode::External { address, udp_port } => Some((address, udp_port)),
            ServerMode::None | ServerMode::Embedded => None,
        }
    }

    /// Whether it has one.
    #[must_use]
    pub const fn has_server(&self) -> bool {
        !matches!(self.server(), ServerMode::None)
    }

    /// Contributions that complete a PSN at first, if not all.
    #[must_use]
    pub const fn needed(&self) -> Option<u16> {
        match *self {
            Self::Early { needed, .. } => Some(needed),
            _ => None,
        }
    }

    /// The same; more than there may be ranks, if that is all.
    pub(super) fn threshold(&self) -> u16 {
        self.needed().unwrap_or(u16::MAX)
    }

    /// Whether results may lack ranks, so that SetH is admitted (iSwitch, Table 2).
    #[must_use]
    pub const fn is_early(&self) -> bool {
        matches!(self, Self::Early { .. })
    }

    /// How its workers register, if they are SwitchML's clients.
    #[must_use]
    pub const fn registry(&self) -> Option<Registry> {
        match *self {
            Self::Switchml { registry, .. } => Some(registry),
            _ => None,
        }
    }

    /// How it uses the pool, with this window.
    #[must_use]
    pub fn policy(&self, window: u16) -> Policy {
        let all = Policy {
            region: self.place(),
            order: self.order(),
            server: self.has_server(),
            ..Policy::default()
        };
        match *self {
            // A partial in the order of ranks keeps all its packets: as many as ranks may have in flight.
            Self::Region { order: Order::Rank, .. } => Policy { quota: window.into(), ..all },
            Self::Shared { conflict, quota, .. } => Policy { conflict, quota, ..all },
            Self::Early { partial_after: Some(after), .. } => {
                Policy { partial_after: u64::try_from(after.as_nanos()).unwrap_or(u64::MAX), ..all }
            }
            _ => all,
        }
    }

    /// Whether a job of another kind can complete the PSNs in flight: in the same slots, in the same order,
    /// with the same server, from the same clients.
    pub(super) fn goes_on_as(&self, other: &Self) -> bool {
        let ground = |kind: &Self| (kind.mode(), kind.place(), kind.order(), kind.server(), kind.registry());
        ground(self) == ground(other)
    }
}
