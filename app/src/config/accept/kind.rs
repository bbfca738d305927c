//! Which kind a job is, and its kind's table: how each key is written, accepted and shown.

use core::ops::Range;
use std::net::IpAddr;
use std::time::Duration;

use pascaline_aggregator::{ConflictPolicy, Order, PoolConfig};
use pascaline_pipelines::membership::{JobKind, ServerMode};
use serde::Serialize;
use serde_json::Value;
use toml::Spanned;
use utoipa::ToSchema;

use super::job::{Job, span};
use super::switchml::SwitchMlTerms;
use super::values::word;
use super::{Accept, Checked};
use crate::config::job::{JobConfig, PsMode};
use crate::config::kind::{KindName, Tag};
use crate::config::words::{Named, Word as _};

keys! {
    /// The keys of kind `region`.
    #[derive(Default)]
    Region as NewRegion {
        slots: Option<Spanned<u32>> as Option<u32>,
        order: Option<Spanned<Named<Order>>> as Option<String>,
    }

    /// The keys of kind `shared`.
    #[derive(Default)]
    Shared as NewShared {
        conflict: Option<Spanned<Named<ConflictPolicy>>> as Option<String>,
        server: Option<Spanned<bool>> as Option<bool>,
        order: Option<Spanned<Named<Order>>> as Option<String>,
        quota: Option<Spanned<u32>> as Option<u32>,
    }

    /// The keys of kind `early`.
    #[derive(Default)]
    Early as NewEarly {
        slots: Option<Spanned<u32>> as Option<u32>,
        /// A count of contributions, or a share of the fan-in.
        threshold: Option<Spanned<toml::Value>> as Option<Value>,
        partial_after: Option<Spanned<String>> as Option<String>,
    }
}

/// What the appliance has for a job, whatever kind it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) pool: &'a PoolConfig,
    pub(super) ps: PsMode,
    /// Bytes of the longest update.
    pub(super) max_update: u16,
    /// The appliance's own addresses.
    pub(super) own: &'a [IpAddr],
}

/// The tables of kinds that a job has, with their places.
fn tables(job: &Job) -> impl Iterator<Item = (Tag, Range<usize>)> {
    let all = [
        (Tag::Region, span(job.region.as_ref())),
        (Tag::Shared, span(job.shared.as_ref())),
        (Tag::Early, span(job.early.as_ref())),
        (Tag::Updates, span(job.updates.as_ref())),
        (Tag::Switchml, span(job.switchml.as_ref())),
    ];
    all.into_iter().filter_map(|(tag, at)| Some((tag, at?)))
}

impl Job {
    /// How many slots of its own it asks for, where it says so.
    pub(super) fn slots(&self) -> Option<&Spanned<u32>> {
        match self.kind_name().tag() {
            Tag::Region => self.region.as_ref()?.get_ref().slots.as_ref(),
            Tag::Early => self.early.as_ref()?.get_ref().slots.as_ref(),
            Tag::Switchml => self.switchml.as_ref()?.get_ref().slots.as_ref(),
            Tag::Shared | Tag::Updates => None,
        }
    }
}

impl Accept<'_> {
    /// What a job says for its kind, once it is clear that everything it says is for that kind.
    pub(super) fn kind_name(&self, job: &Job) -> Checked<KindName> {
        let name = job.kind_name();
        let tag = name.tag();
        if let Some((other, at)) = tables(job).find(|(other, _)| *other != tag) {
            let (other, own) = (other.name(), tag.name());
            let message = format!("[jobs.{other}] in a job of kind {own:?}");
            let remedy = format!("a job is of one kind: leave this table out, or set kind = {other:?}");
            return Err(self.error(&Spanned::new(at, ()), message, &remedy));
        }
        let lacks = match name {
            KindName::Plain(Tag::Shared) if job.shared.is_none() => Some((
                "conflict = \"preempt\"",
                ", or set kind = \"dsa\" or \"atp\", which are such jobs with all choices made",
            )),
            KindName::Plain(Tag::Early) if job.early.is_none() => Some((
                "threshold = 0.94 or partial_after = \"10ms\"",
                ", or set kind = \"iswitch\" or \"panama\", whose ranks choose a threshold",
            )),
            KindName::Plain(Tag::Switchml) if job.switchml.is_none() => Some((
                "controller = \"192.0.2.1:50099\", an address of this machine that its clients can reach",
                "",
            )),
            _ => None,
        };
        if let (Some((keys, or)), Some(at)) = (lacks, &job.kind) {
            let message = format!("kind = {0:?} without its table [jobs.{0}]", tag.name());
            let remedy = format!("add [jobs.{}] with e.g. {keys}{or}", tag.name());
            return Err(self.error(at, message, &remedy));
        }
        match job.unused() {
            Some((key, at)) => {
                let message = format!("{key} has no meaning in a job of kind {:?}", tag.name());
                Err(self.error(&Spanned::new(at, ()), message, "leave it out"))
            }
            None => Ok(name),
        }
    }

    /// The kind of a job in slots of its own.
    pub(super) fn kind_in(
        &self,
        job: &Job,
        fan_in: u16,
        place: pascaline_aggregator::Region,
        scope: Scope<'_>,
    ) -> Checked<JobKind> {
        match job.kind_name().tag() {
            Tag::Early => {
                let default = Early::default();
                let Early { threshold, partial_after, .. } =
                    job.early.as_ref().map_or(&default, Spanned::get_ref);
                let needed =
                    threshold.as_ref().map_or(Ok(fan_in), |written| self.threshold(written, fan_in))?;
                let after =
                    partial_after.as_ref().map(|written| self.duration(Some(written), Duration::ZERO));
                Ok(JobKind::Early { place, needed, partial_after: after.transpose()? })
            }
            Tag::Switchml => self.switchml(job, place, scope),
            Tag::Region | Tag::Shared | Tag::Updates => {
                let order = job.region.as_ref().and_then(|table| word(table.get_ref().order.as_ref()));
                Ok(JobKind::Region { place, order: order.unwrap_or_default() })
            }
        }
    }

    /// The kind of a job without slots of its own, with this window and at most this number of shared slots.
    pub(super) fn kind_beside(
        &self,
        job: &Job,
        (window, slots): (u16, u32),
        scope: Scope<'_>,
    ) -> Checked<JobKind> {
        let name = job.kind_name();
        if name.tag() == Tag::Updates {
            return self.updates(job, scope);
        }
        let default = Shared::default();
        let table = job.shared.as_ref().map_or(&default, Spanned::get_ref);
        let served = self.server(job, scope.ps)?;
        let order = word(table.order.as_ref()).unwrap_or_default();
        Ok(JobKind::Shared {
            conflict: word(table.conflict.as_ref()).unwrap_or_else(|| name.conflict(served)),
            order,
            quota: self.quota(table, order, window, slots)?,
            server: if served { scope.ps.server() } else { ServerMode::None },
        })
    }

    /// Whether a job of kind "shared" uses the parameter server. By default it does so if there is one.
    pub(super) fn server(&self, job: &Job, mode: PsMode) -> Checked<bool> {
        let none = mode == PsMode::None;
        let written = job.shared.as_ref().and_then(|table| table.get_ref().server.as_ref());
        let remedy =
            "run one ([ps] mode = \"embedded\" or \"external\"), or set server = false in [jobs.shared]";
        match (written, &job.kind) {
            (Some(written), _) if *written.get_ref() && none => {
                Err(self.error(written, "there is no parameter server: [ps] mode is \"none\"", remedy))
            }
            (Some(written), _) => Ok(*written.get_ref()),
            (None, Some(kind)) if none && kind.get_ref().0 != KindName::Plain(Tag::Shared) => {
                let name = kind.get_ref().0.name();
                let message = format!("kind {name:?} needs a parameter server, but [ps] mode is \"none\"");
                Err(self.error(kind, message, remedy))
            }
            (None, _) => Ok(!none),
        }
    }

    fn quota(&self, table: &Shared, order: Order, window: u16, slots: u32) -> Checked<u32> {
        // A partial in the order of ranks keeps all its packets: there is no such job without a bound.
        let (least, bound) = match order {
            Order::Arrival => (0, 0),
            Order::Rank => (1, u32::from(window)),
        };
        self.within(table.quota.as_ref(), bound, least, slots, "quota")
    }

    /// A count of contributions, or a share of the fan-in, rounded up (PANAMA-0.94: as soon as 94 % are
    /// there).
    fn threshold(&self, written: &Spanned<toml::Value>, fan_in: u16) -> Checked<u16> {
        let found = match written.get_ref() {
            toml::Value::Integer(count) => {
                u16::try_from(*count).ok().filter(|count| (1..=fan_in).contains(count))
            }
            toml::Value::Float(share) if *share > 0.0 && *share <= 1.0 => {
                // 0.94 is not exactly 94 hundredths: without the allowance, 0.94 of 50 could come out as 48.
                let least = (share * f64::from(fan_in) - 1e-9).ceil();
                (1..=fan_in).find(|&count| f64::from(count) >= least)
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let message = format_args!("threshold = {} is out of range", written.get_ref());
            let remedy = format!(
                "write a count from 1 to fan_in = {fan_in}, or a share of it above 0.0 and up to 1.0, e.g. \
                    0.94"
            );
            self.error(written, message, &remedy)
        })
    }
}

/// A job with slots of its own.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct RegionTerms {
    pub(crate) slots: u64,
    /// In which order contributions are added: `arrival` or `rank`.
    pub(crate) order: String,
}

/// A job that shares slots with others.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SharedTerms {
    /// What decides who gets a slot: `first-come`, `preempt`, `always` or `coin`.
    pub(crate) conflict: String,
    /// Whether a parameter server completes what the pool could not.
    pub(crate) server: bool,
    /// In which order contributions are added: `arrival` or `rank`.
    pub(crate) order: String,
    /// Partials at the same time; 0 for any number.
    pub(crate) quota: u32,
}

/// A job whose results may lack ranks.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct EarlyTerms {
    pub(crate) slots: u64,
    /// Contributions that complete a PSN.
    pub(crate) threshold: u16,
    /// After how many seconds a partial is sent out as it is; none for never.
    pub(crate) partial_after_seconds: Option<f64>,
}

/// What only jobs of one kind have; at most one of these.
type Terms = (Option<RegionTerms>, Option<SharedTerms>, Option<EarlyTerms>, Option<SwitchMlTerms>);

/// A job's; a set has this many slots.
pub(super) fn terms(job: &JobConfig, ways: usize) -> Terms {
    let kind = job.spec.kind;
    let slots = kind.place().map_or(0, |place| u64::from(place.sets) * ways as u64);
    match kind {
        JobKind::Region { order, .. } => {
            (Some(RegionTerms { slots, order: order.name().to_owned() }), None, None, None)
        }
        JobKind::Shared { conflict, server, order, quota } => {
            let (conflict, order) = (conflict.name().to_owned(), order.name().to_owned());
            let server = server != ServerMode::None;
            (None, Some(SharedTerms { conflict, server, order, quota }), None, None)
        }
        JobKind::Early { needed, partial_after, .. } => {
            let partial_after_seconds = partial_after.map(|after| after.as_secs_f64());
            (None, None, Some(EarlyTerms { slots, threshold: needed, partial_after_seconds }), None)
        }
        JobKind::Updates { .. } | JobKind::Switchml { .. } => {
            (None, None, None, SwitchMlTerms::of(job, slots))
        }
    }
}
