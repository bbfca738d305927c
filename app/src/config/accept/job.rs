//! The keys of a job: how each is written, accepted and shown. Tables of kinds and of parents are beside it.

use core::fmt;
use core::ops::Range;
use std::time::Duration;

use pascaline_pipelines::membership::{JobKind, JobSpec, OnDeath, Rights};
use pascaline_seal::LONGER;
use pascaline_wire::CongestionControl;
use pascaline_wire::frame::Address;
use pascaline_worker::session::HEARTBEAT;
use serde::Serialize;
use toml::Spanned;
use utoipa::ToSchema;

use super::jobs::{MOST_WINDOW, Reserved, default_window, widest};
use super::kind::{self, Early, NewEarly, NewRegion, NewShared, Region, Scope, Shared};
use super::kind::{EarlyTerms, RegionTerms, SharedTerms};
use super::olaf::{NewUpdates, Updates};
use super::parent::{self, NewParent, Parent, ParentTerms};
use super::switchml::{NewSwitchMl, SwitchMl, SwitchMlTerms};
use super::values::word;
use super::{Accept, Checked};
use crate::config::Config;
use crate::config::job::{JobConfig, PsMode, Told};
use crate::config::kind::{KindName, Tag};
use crate::config::words::{Named, Security, Word as _};

/// The share of a job that says nothing of it, and the largest.
const DEFAULT_SHARE: u16 = 1;
const MOST_SHARE: u16 = 1000;
/// The congestion control of a job that names none: it needs nothing of the network.
const DEFAULT_CONGESTION: CongestionControl = CongestionControl::Delay;
/// Three heartbeats: one may be lost, and one may be on its way.
const LEAST_DEAD_AFTER: Duration = HEARTBEAT.saturating_mul(3);

keys! {
/// The keys of `[[jobs]]`, as conf/appliance.toml explains them. `id` and `fan_in` are needed for a new job.
    Job as NewJob {
        id: Spanned<u16> as Option<u16>,
        name: Option<Spanned<String>> as Option<String>,
        fan_in: Spanned<u16> as Option<u16>,
        window: Option<Spanned<u16>> as Option<u16>,
        members: Option<Spanned<Vec<Spanned<String>>>> as Option<Vec<String>>,
        max_ranks_per_host: Option<Spanned<u16>> as Option<u16>,
        share: Option<Spanned<u16>> as Option<u16>,
        dead_after: Option<Spanned<String>> as Option<String>,
        on_death: Option<Spanned<Named<OnDeath>>> as Option<String>,
        control: Option<Spanned<Named<Rights>>> as Option<String>,
        congestion: Option<Spanned<Named<CongestionControl>>> as Option<String>,
        multicast: Option<Spanned<String>> as Option<String>,
        parent: Option<Spanned<Parent>> as Option<NewParent>,
        security: Option<Spanned<Named<Security>>> as Option<String>,
        key_file: Option<Spanned<String>> as Option<String>,
        /// Its kind, or a paper's system; what only such jobs have is in the object of the kind's name.
        kind: Option<Spanned<Named<KindName>>> as Option<String>,
        region: Option<Spanned<Region>> as Option<NewRegion>,
        shared: Option<Spanned<Shared>> as Option<NewShared>,
        early: Option<Spanned<Early>> as Option<NewEarly>,
        updates: Option<Spanned<Updates>> as Option<NewUpdates>,
        switchml: Option<Spanned<SwitchMl>> as Option<NewSwitchMl>,
    }
}

pub(super) fn span<T>(written: Option<&Spanned<T>>) -> Option<Range<usize>> {
    written.map(Spanned::span)
}

impl Job {
    /// What it says for its kind; by default it has slots of its own.
    pub(super) fn kind_name(&self) -> KindName {
        self.kind.as_ref().map_or(KindName::Plain(Tag::Region), |kind| kind.get_ref().0)
    }

    /// The first key beside the table of its kind that means nothing to this kind, with its place.
    pub(super) fn unused(&self) -> Option<(&'static str, Range<usize>)> {
        let (congestion, multicast) = (span(self.congestion.as_ref()), span(self.multicast.as_ref()));
        let security = ("security", span(self.security.as_ref()));
        let key_file = ("key_file", span(self.key_file.as_ref()));
        let keys: &[(&str, Option<Range<usize>>)] = match self.kind_name().tag() {
            Tag::Region | Tag::Shared | Tag::Early => &[],
            Tag::Updates => {
                &[("share", span(self.share.as_ref())), ("congestion", congestion), ("multicast", multicast)]
            }
            Tag::Switchml => &[
                ("members", span(self.members.as_ref())),
                ("max_ranks_per_host", span(self.max_ranks_per_host.as_ref())),
                ("dead_after", span(self.dead_after.as_ref())),
                ("on_death", span(self.on_death.as_ref())),
                ("control", span(self.control.as_ref())),
                ("congestion", congestion),
                ("multicast", multicast),
                ("parent", span(self.parent.as_ref())),
                security,
                key_file,
            ],
        };
        keys.iter().find_map(|(key, at)| Some((*key, at.clone()?)))
    }
}

impl Accept<'_> {
    /// A job, with what its region leaves it or, without one, the shared slots. Its parent comes later.
    pub(super) fn job(
        &self,
        job: &Job,
        others: &[Spanned<Job>],
        fan_in: u16,
        (place, shared_slots): (Option<&Reserved>, u32),
        scope: Scope<'_>,
    ) -> Checked<JobConfig> {
        let (id, tag) = (*job.id.get_ref(), job.kind_name().tag());
        let slots = place.map_or(shared_slots, |place| place.slots);
        if slots == 0 && tag != Tag::Updates {
            let remedy = "raise [pool] slots, or give this job slots of its own, too: kind = \"region\"";
            return Err(self.error(&job.id, "the regions of other jobs leave no slot of the pool", remedy));
        }
        self.names_enough(job, scope.pool)?;
        // What finds no slot goes to the parameter server, which has updates anyway; without one it would
        // only be refused.
        let spills = match tag {
            Tag::Shared => self.server(job, scope.ps)?,
            Tag::Updates => job.parent.is_none(),
            Tag::Region | Tag::Early | Tag::Switchml => false,
        };
        let (most, fitting) = if spills { (MOST_WINDOW, MOST_WINDOW) } else { widest(job, place, slots) };
        let default = default_window(fan_in).min(fitting);
        let window = self.within(job.window.as_ref(), default, 1, most, "window")?;
        // All of them may be on one host, unless it is written.
        let ranks = job.max_ranks_per_host.as_ref();
        let outside = spills && matches!(scope.ps, PsMode::External { .. });
        let (key_file, keys) = self.keys(job, outside)?.unzip();
        let spec = JobSpec {
            window,
            admitted: job.members.as_ref().map(|members| self.members(members, fan_in)).transpose()?,
            max_ranks_per_host: self.within(ranks, fan_in, 1, fan_in, "max_ranks_per_host")?,
            kind: match place {
                Some(place) => self.kind_in(job, fan_in, place.region, scope)?,
                None => self.kind_beside(job, (window, slots), scope)?,
            },
            share: self.within(job.share.as_ref(), DEFAULT_SHARE, 1, MOST_SHARE, "share")?,
            dead_after: if tag == Tag::Switchml { None } else { self.dead_after(job)? },
            on_death: word(job.on_death.as_ref()).unwrap_or_default(),
            control: word(job.control.as_ref()).unwrap_or_default(),
            congestion: Some(word(job.congestion.as_ref()).unwrap_or(DEFAULT_CONGESTION)),
            multicast: self.multicast(job, others, scope.own)?,
            keys,
            ..JobSpec::new(id, fan_in)
        };
        Ok(JobConfig {
            name: job.name.as_ref().map_or_else(|| format!("job{id}"), |name| name.get_ref().clone()),
            spec,
            key_file,
            parent_key_file: None,
            controller: job
                .switchml
                .as_ref()
                .map(|table| self.listen(&table.get_ref().controller))
                .transpose()?,
        })
    }

    fn dead_after(&self, job: &Job) -> Checked<Option<Duration>> {
        let after = self.duration_or_never(job.dead_after.as_ref(), JobSpec::DEAD_AFTER)?;
        match (&job.dead_after, after) {
            (Some(written), Some(short)) if short < LEAST_DEAD_AFTER => {
                let message = format!(
                    "dead_after = {short:?}: workers say every {HEARTBEAT:?} that they are there, and such a \
                        packet may be lost"
                );
                let remedy = format!("choose at least \"{LEAST_DEAD_AFTER:?}\", or \"0s\" for never");
                Err(self.error(written, message, &remedy))
            }
            _ => Ok(after),
        }
    }

    fn members(&self, written: &Spanned<Vec<Spanned<String>>>, fan_in: u16) -> Checked<Vec<Address>> {
        let members = written.get_ref();
        if members.len() == usize::from(fan_in) {
            return members.iter().map(|member| Ok(self.address(member)?.into())).collect();
        }
        let message = format!("{} members, but fan_in = {fan_in}", members.len());
        Err(self.error(written, message, "list one address per rank, or leave members out"))
    }
}

/// What a job is to be like, every default resolved.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct JobTerms {
    pub(crate) id: u16,
    pub(crate) name: String,
    /// `region`, `shared`, `early`, `updates` or `switchml`. What only such jobs have is in the object of
    /// this name; those of kind `updates` have none.
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<RegionTerms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<SharedTerms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) early: Option<EarlyTerms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) switchml: Option<SwitchMlTerms>,
    pub(crate) fan_in: u16,
    pub(crate) window: u16,
    /// Addresses by rank, if only these are admitted.
    pub(crate) members: Option<Vec<String>>,
    /// The most ranks that one address may have.
    pub(crate) max_ranks_per_host: u16,
    /// Its guaranteed share, in proportion to the other jobs'.
    pub(crate) share: u16,
    /// After how many silent seconds a rank is lost; none for never.
    pub(crate) dead_after_seconds: Option<f64>,
    /// `fail` or `continue`; none for SwitchML's clients, as the next two.
    pub(crate) on_death: Option<String>,
    /// Which members may reset and suspend it by packets: `member`, `rank0`, `operator` for none.
    pub(crate) control: Option<String>,
    /// Which congestion control its workers follow: `fixed`, `panama`, `dsa` or `delay`.
    pub(crate) congestion: Option<String>,
    /// The multicast group that results go to, for those of its members that hear it.
    pub(crate) multicast: Option<String>,
    /// The appliance that its sums go to, if they do.
    pub(crate) parent: Option<ParentTerms>,
    /// The protection of its packets: `none`, `mac` or `encrypt`.
    pub(crate) security: String,
}

impl JobConfig {
    /// The same for the admin API; a set has this many slots.
    pub(crate) fn terms(&self, ways: usize) -> JobTerms {
        let JobSpec { id, fan_in, window, ref admitted, multicast, .. } = self.spec;
        let JobSpec { max_ranks_per_host, share, dead_after, on_death, control, congestion, .. } = self.spec;
        // What means nothing to SwitchML's clients is left out.
        let own = |word: &str| self.controller.is_none().then(|| word.to_owned());
        let (region, shared, early, switchml) = kind::terms(self, ways);
        JobTerms {
            id,
            name: self.name.clone(),
            kind: Tag::of(&self.spec.kind).name().to_owned(),
            region,
            shared,
            early,
            switchml,
            fan_in,
            window,
            members: admitted.as_ref().map(|all| all.iter().map(ToString::to_string).collect()),
            max_ranks_per_host,
            share,
            dead_after_seconds: dead_after.map(|after| after.as_secs_f64()),
            on_death: own(on_death.name()),
            control: own(control.name()),
            congestion: congestion.and_then(|congestion| own(congestion.name())),
            multicast: multicast.map(|group| group.to_string()),
            parent: parent::terms(&self.spec),
            security: self.security().to_owned(),
        }
    }
}

impl Config {
    /// The same for `pascaline check`.
    pub(in crate::config) fn show_job(&self, job: &JobConfig, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobSpec { id, fan_in, window, kind, share, dead_after, on_death, .. } = job.spec;
        write!(f, "  job {id} {:?}: {fan_in} ranks, window {window}; ", job.name)?;
        if job.updates() {
            let seal = job.spec.keys.as_ref().map_or(0, |_| LONGER);
            let most = usize::from(self.max_update()).saturating_sub(seal) / 8 * 8;
            write!(f, "updates of up to {most} bytes")?;
        } else {
            // The policy itself begins with the other kinds' names.
            if matches!(kind, JobKind::Early { .. } | JobKind::Switchml { .. }) {
                write!(f, "{}, ", Tag::of(&kind).name())?;
            }
            let percent = 100.0 * self.part(share);
            write!(f, "{}, share {share} ({percent:.0} %); ", Told(&job.policy()))?;
            write!(f, "complete with {}", job.needed())?;
        }
        if let Some((controller, registry)) = job.switchml() {
            write!(f, "; controller {}, UDP port {}", controller.value, registry.udp_port)?;
        } else if let (false, Some(congestion)) = (job.updates(), job.spec.congestion) {
            let early = if kind.is_early() { ", or as SetH and FBcast say" } else { "" };
            write!(f, "{early}; congestion control {}", congestion.name())?;
        }
        if job.spec.max_ranks_per_host < fan_in {
            write!(f, "; {} of its ranks at most on one host", job.spec.max_ranks_per_host)?;
        }
        if job.spec.keys.is_some() {
            write!(f, "; security {}", job.security())?;
        }
        if let Some(group) = job.spec.multicast {
            write!(f, "; results to {group} for those who hear it")?;
        }
        match dead_after.map(humantime::format_duration) {
            Some(after) => writeln!(f, "; lost after {after}: {}", on_death.name())?,
            None => writeln!(f, "; never lost")?,
        }
        parent::show(job, f)?;
        match &job.spec.refused {
            Some(why) => writeln!(f, "        no rank may join: {}", why.as_str()),
            None => Ok(()),
        }
    }
}
