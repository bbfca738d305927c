//! Settings with a closed list of values, each with one name for file, admin API and `pascaline check`.

use core::marker::PhantomData;

use pascaline_aggregator::{ConflictPolicy, Order};
use pascaline_dpdk::Hugepages;
use pascaline_pipelines::Passing;
use pascaline_pipelines::membership::{OnDeath, Rights};
use pascaline_ps::asynchronous::Audience;
use pascaline_queue::{Combine, Discipline};
use pascaline_wire::CongestionControl;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::kind::{KindName, Tag};

/// A setting with a closed list of values.
pub(crate) trait Word: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// The value's name.
    fn name(self) -> &'static str;
}

/// A [`Word`] as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<T>(pub(super) T);

impl<'de, T: Word> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Names(PhantomData))
    }
}

struct Names<T>(PhantomData<T>);

impl<T: Word> Names<T> {
    fn all() -> String {
        T::ALL.iter().map(|word| format!("{:?}", word.name())).collect::<Vec<_>>().join(", ")
    }
}

impl<T: Word> Visitor<'_> for Names<T> {
    type Value = Named<T>;

    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "one of {}", Self::all())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Named<T>, E> {
        let found = T::ALL.iter().find(|word| word.name() == text);
        found
            .map(|&word| Named(word))
            .ok_or_else(|| E::custom(format_args!("{text:?} is not a choice: write one of {}", Self::all())))
    }
}

/// Names every value of these enums: a further variant does not compile without its name.
macro_rules! words {
    ($($type:ty { $($variant:ident = $name:literal),+ $(,)? })+) => {$(
        impl Word for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    )+};
}

/// The pool and the protocol name their own.
macro_rules! named {
    ($($type:ty),+) => {$(
        impl Word for $type {
            const ALL: &'static [Self] = &Self::ALL;

            fn name(self) -> &'static str {
                Self::name(self)
            }
        }
    )+};
}

named!(ConflictPolicy, CongestionControl, Order);

/// Whether an idle lcore sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    Spin,
    Backoff,
}

/// Whether what passes through in line has a transmit queue of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PassingQueue {
    /// Where the port has one to spare.
    #[default]
    Auto,
    /// Or the appliance does not start.
    Require,
    No,
}

/// Where the parameter server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerMode {
    Embedded,
    External,
    None,
}

/// By which rule a parameter server trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Training {
    Olaf,
    Staleness,
}

/// The protection of a job's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    None,
    Mac,
    Encrypt,
}

/// Who verifies the UDP checksums of packets that a port receives for the appliance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The card, if it does.
    Card,
    Software,
}

words! {
    Audience { Cluster = "cluster", Worker = "worker" }
    Combine { Sum = "sum", Mean = "mean" }
    Discipline { Olaf = "olaf", Fifo = "fifo" }
    Hugepages { Auto = "auto", Require = "require", No = "no" }
    Idle { Spin = "spin", Backoff = "backoff" }
    Passing { First = "first", InTurn = "in-turn" }
    PassingQueue { Auto = "auto", Require = "require", No = "no" }
    OnDeath { Fail = "fail", Continue = "continue" }
    Rights { Members = "member", RankZero = "rank0", Operator = "operator" }
    Security { None = "none", Mac = "mac", Encrypt = "encrypt" }
    ServerMode { Embedded = "embedded", External = "external", None = "none" }
    Training { Olaf = "olaf", Staleness = "staleness" }
    Tag { Region = "region", Shared = "shared", Early = "early", Updates = "updates", Switchml = "switchml" }
    Verify { Card = "card", Software = "software" }
}

impl Word for KindName {
    const ALL: &'static [Self] = &[
        Self::Plain(Tag::Region),
        Self::Plain(Tag::Shared),
        Self::Plain(Tag::Early),
        Self::Plain(Tag::Updates),
        Self::Plain(Tag::Switchml),
        Self::Dsa,
        Self::Atp,
        Self::Iswitch,
        Self::Panama,
        Self::Olaf,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Plain(tag) => tag.name(),
            Self::Dsa => "dsa",
            Self::Atp => "atp",
            Self::Iswitch => "iswitch",
            Self::Panama => "panama",
            Self::Olaf => "olaf",
        }
    }
}
