//! Faults that tests put into the pool, to prove that its invariants find them.
//!
//! Without the feature `sabotage` no fault can be switched on, and the compiler removes every check for one.

/// A fault.
#[cfg_attr(not(feature = "sabotage"), expect(unreachable_pub, reason = "public only for tests"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A newcomer evicts a partial that is still wanted, though a cached result could go.
    WrongVictim,
    /// A slot counts a contribution but does not note its rank.
    LostBit,
    /// A result goes to the sink twice.
    ResultTwice,
    /// A full set gives no slot back.
    SlotNeverFreed,
    /// A job keeps a borrowed way, though the owner needs it.
    ShareKept,
    /// A contribution is combined with a hand-off, and handed off itself, too.
    CombinedTwice,
    /// A hand-off is changed although its receiver may have it already.
    CombinedLate,
    /// A receiver may see that there is an item before it sees the item.
    Unordered,
    /// A ring is closed before what is in it is published.
    ClosedEarly,
}

#[cfg(feature = "sabotage")]
mod switch {
    use core::cell::Cell;

    use super::Sabotage;

    std::thread_local! {
        static ON: Cell<Option<Sabotage>> = const { Cell::new(None) };
    }

    impl Sabotage {
        /// Those that show with a single lcore.
        pub const WITHIN_AN_LCORE: [Self; 5] =
            [Self::WrongVictim, Self::LostBit, Self::ResultTwice, Self::SlotNeverFreed, Self::ShareKept];

        /// Runs a function while this thread's pools have the fault.
        pub fn during<T>(self, act: impl FnOnce() -> T) -> T {
            struct Off;
            impl Drop for Off {
                fn drop(&mut self) {
                    ON.set(None);
                }
            }
            ON.set(Some(self));
            let _off = Off;
            act()
        }

        pub(crate) fn is_on(self) -> bool {
            ON.get() == Some(self)
        }
    }
}

#[cfg(not(feature = "sabotage"))]
impl Sabotage {
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
}
