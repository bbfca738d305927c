//! Which generations a rank can go on with.
//!
//! Mostly that is the one that it was in. A rank that has taken no result since it went on from one
//! generation to the next can go on with either: others may not have heard of the next before the appliance
//! was started anew once more.

use pascaline_wire::control::{self, Control};

use super::rank::Epochs;

/// One or two generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim([Option<u16>; 2]);

impl Claim {
    /// What a Join names; `None` if that is none.
    pub(super) fn of(join: &Control) -> Option<Self> {
        let latest = control::named_generation(join.expected)?;
        Some(Self([Some(latest), control::named_generation(join.before)]))
    }

    /// A Join that names them.
    pub(super) fn describe(self, join: Control) -> Control {
        let [expected, before] = self.0.map(|epoch| epoch.map_or(0, control::generation));
        Control { expected, before, ..join }
    }

    /// Those of both.
    pub(super) fn shared(self, other: Self) -> Option<Self> {
        let mut both = self.epochs().filter(|&epoch| other.contains(epoch));
        let latest = both.next()?;
        Some(Self([Some(latest), both.next()]))
    }

    /// The generations.
    pub(super) fn epochs(self) -> impl Iterator<Item = u16> {
        self.0.into_iter().flatten()
    }

    /// The generation that its sender is in.
    pub(super) const fn latest(self) -> Option<u16> {
        self.0[0]
    }

    /// True if it names nothing that the other does not.
    pub(super) fn is_within(self, other: Self) -> bool {
        self.epochs().all(|epoch| other.contains(epoch))
    }

    /// True if one of them is this.
    pub(super) fn contains(self, epoch: u16) -> bool {
        self.0.contains(&Some(epoch))
    }

    /// Those that are not in a set; `None` if all are.
    pub(super) fn without(self, set: &Epochs) -> Option<Self> {
        let rest = self.0.map(|epoch| epoch.filter(|&epoch| !set.contains(epoch)));
        rest.iter().any(Option::is_some).then_some(Self(rest))
    }
}

/// A generation that all of them contain, if each is one; the later one of the first, where there is a
/// choice.
pub(super) fn common(mut claims: impl Iterator<Item = Option<Claim>> + Clone) -> Option<u16> {
    let first = claims.next()??;
    first.epochs().find(|&epoch| claims.clone().all(|claim| claim.is_some_and(|claim| claim.contains(epoch))))
}
