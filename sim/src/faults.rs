//! What can go wrong, by kind, and how often it did.

use core::fmt;

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $variant:ident => $key:literal, $text:literal;)+) => {
        /// A kind of fault. More will come: preemption by priority, a parameter server that restarts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Fault {
            /// All kinds, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The kind's key in machine-readable reports.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)+ }
            }

            /// The kind in words, to be followed by a count.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

faults! {
    /// A frame vanished, by itself.
    Lost => "lost", "lost";
    /// A frame vanished because its link was down for a while.
    BlackedOut => "blacked_out", "blacked out";
    /// A frame arrived twice.
    Duplicated => "duplicated", "duplicated";
    /// A frame took longer than its link's latency.
    Delayed => "delayed", "delayed";
    /// A frame came so late that it was sent again meanwhile, or that its sender was already about something else.
    Stray => "stray", "stray";
    /// A frame overtook one that was sent before it on the same link.
    Reordered => "reordered", "reordered";
    /// Bytes of a frame changed.
    Corrupted => "corrupted", "corrupted";
    /// A frame lost its end.
    Truncated => "truncated", "truncated";
    /// A port took no frames during a turn of an lcore.
    TransmitStalled => "transmit_stalled", "transmit stalls";
    /// There were no buffers during a turn of an lcore.
    BuffersExhausted => "buffers_exhausted", "turns without buffers";
    /// An lcore was kept from turning for a while.
    LcoreHeldUp => "lcore_held_up", "lcores held up";
    /// The appliance lost all its memory and came back with another generation.
    ApplianceRestart => "appliance_restarts", "appliance restarts";
    /// A worker went away for good, without a word.
    WorkerKilled => "workers_killed", "workers killed";
    /// A worker went away and came back as a new session.
    WorkerRestarted => "workers_restarted", "workers restarted";
}

/// How often each kind of fault happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults([u64; Fault::ALL.len()]);

impl Faults {
    /// How often this kind happened.
    #[must_use]
    pub const fn get(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    pub(crate) const fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &fault) in Fault::ALL.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", fault.text(), self.get(fault))?;
        }
        Ok(())
    }
}
