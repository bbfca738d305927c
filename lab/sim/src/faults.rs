//! The kinds of faults and of states reached by them, with counts.

use core::fmt;

macro_rules! kinds {
    (
        $(#[doc = $what:literal])+ $kind:ident,
        $(#[doc = $tally:literal])+ $counts:ident,
        $($(#[doc = $doc:literal])+ $variant:ident => $key:literal, $text:literal;)+
    ) => {
        $(#[doc = $what])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $kind {
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

        $(#[doc = $tally])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $counts([u64; $kind::ALL.len()]);

        impl $counts {
            /// How often this kind happened.
            #[must_use]
            pub const fn get(&self, kind: $kind) -> u64 {
                self.0[kind as usize]
            }

            /// All kinds together.
            #[must_use]
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }

            pub(crate) const fn count(&mut self, kind: $kind) {
                self.add(kind, 1);
            }

            pub(crate) const fn add(&mut self, kind: $kind, count: u64) {
                self.0[kind as usize] += count;
            }

            pub(crate) fn merge(&mut self, other: &Self) {
                for (mine, theirs) in self.0.iter_mut().zip(other.0) {
                    *mine += theirs;
                }
            }
        }

        impl fmt::Display for $counts {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (at, &kind) in $kind::ALL.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{} {}", kind.text(), self.get(kind))?;
                }
                Ok(())
            }
        }
    };
}

kinds! {
    /// A kind of fault.
    Fault,
    /// How often each kind of fault happened.
    Faults,
    /// A single frame vanished.
    Lost => "lost", "lost";
    /// A frame vanished because its link was down for a while.
    BlackedOut => "blacked_out", "blacked out";
    /// A frame arrived twice.
    Duplicated => "duplicated", "duplicated";
    /// A frame took longer than its link's latency.
    Delayed => "delayed", "delayed";
    /// A frame arrived after it was sent again, or after its sender had moved on.
    Stray => "stray", "stray";
    /// A frame overtook one that was sent before it on the same link.
    Reordered => "reordered", "reordered";
    /// Bytes of a frame changed.
    Corrupted => "corrupted", "corrupted";
    /// A frame lost its end.
    Truncated => "truncated", "truncated";
    /// A partial lost its slot to another PSN before its time.
    Preempted => "preemptions", "preempted";
    /// A port took no frames during a turn of an lcore.
    TransmitStalled => "transmit_stalled", "transmit stalls";
    /// There were no buffers during a turn of an lcore or of the parameter server.
    BuffersExhausted => "buffers_exhausted", "turns without buffers";
    /// An lcore was held up for a while.
    LcoreHeldUp => "lcore_held_up", "lcores held up";
    /// A switch on the way to a rank filtered a frame to its job's multicast group.
    Filtered => "group_filtered", "filtered";
    /// The appliance, an lcore, its parameter server or a worker was stopped for a while, and resumed.
    Paused => "pauses", "pauses";
    /// A frame met the full ring or socket of a stopped part.
    Overrun => "overruns", "overruns";
    /// The appliance lost all its memory and came back with another generation.
    ApplianceRestart => "appliance_restarts", "appliance restarts";
    /// The parameter server was held up for a while.
    ServerHeldUp => "ps_held_up", "PS held up";
    /// The queue to the parameter server was full, or the server had no room for the PSN.
    ServerFull => "ps_full", "PS full";
    /// The parameter server lost all its memory.
    ServerRestart => "ps_restarts", "PS restarts";
    /// The separate parameter server was killed or stopped.
    ServerAway => "ps_away", "PS away";
    /// A worker was killed for good, without leaving.
    WorkerKilled => "workers_killed", "workers killed";
    /// A worker was killed and came back with a new session.
    WorkerRestarted => "workers_restarted", "workers restarted";
    /// All of `SwitchML`'s clients were started again.
    ClientsAgain => "switchml_restarts", "SwitchML restarts";
    /// The appliance got another key for a job.
    Rekeyed => "keys_changed", "keys changed";
    /// A member sent a command: SetH, FBcast, Halt or Reset.
    Commanded => "commands", "commands";
}

kinds! {
    /// Something that schedules should reach: a campaign that never does proves little.
    Reach,
    /// How often schedules reached each.
    Reached,
    /// A worker resumed its PSNs in the job's next generation.
    Resumed => "resumed", "resumed";
    /// A worker began from the first PSN in the job's next generation, with the session that it had.
    BegunAnew => "begun_anew", "begun anew";
    /// The parameter server made a result.
    ServerResult => "ps_completions", "made by the PS";
    /// A partial went from its slot to the parameter server.
    Evicted => "evictions", "evicted";
    /// A contribution found no slot and went to the parameter server.
    Spilled => "spilled", "spilled";
    /// A contribution was refused because the job's quota was used up, or because its place was taken.
    Refused => "conflicts", "refused without a slot";
    /// A rank was declared lost after it had been killed.
    Died => "ranks_lost", "ranks lost";
    /// A rank was declared lost that was still alive.
    TakenForDead => "taken_for_dead", "taken for dead";
    /// A worker finished an allreduce some of whose results did not contain every rank.
    Partial => "partial", "finished with fewer ranks";
    /// A worker that was done stayed beyond its linger limit, because another might need its results.
    StayedOn => "stayed_on", "stayed for others";
    /// An update was acknowledged to the worker that had sent it.
    Acknowledged => "updates_acknowledged", "updates acknowledged";
    /// One of `SwitchML`'s clients had the sum of an operation.
    ClientSum => "switchml_sums", "sums of SwitchML's clients";
    /// The attacker on the path of a sealed job sent a frame of its own.
    Forged => "forged", "frames of an attacker";
    /// A rank learned that the ranks call different operations, or that one has left before its operation.
    Disagreed => "disagreements", "disagreements reported";
    /// A command was carried out.
    Obeyed => "commands_obeyed", "commands carried out";
    /// A worker received a result by its job's multicast group.
    ByGroup => "results_by_multicast", "results by multicast";
    /// A worker went to a generation whose number is lower: they have come round.
    Around => "epoch_wraps", "generation numbers begun again";
    /// A worker finished an allreduce whose PSNs go beyond the last one and begin again at 0.
    Wrapped => "psn_wraps", "PSNs begun again";
}
