//! Why a job is aggregated here, or not: from its counters, in plain words.

use core::fmt;
use std::time::Duration;

use pascaline_pipelines::membership::JobSpec;
use pascaline_pipelines::membership::{JobStatus, ServerState};
use pascaline_telemetry::{CellsReading, DropReason, JobEvent, Late};
use pascaline_wire::trailer::{RankReports, Sentence};
use serde::Serialize;
use utoipa::ToSchema;

use self::causes::{COUNTED, Count};
pub(crate) use self::neighbours::Neighbour;
pub(crate) use self::parent::{ExplainedParent, next_hop, unreachable};
pub(crate) use self::ports::PortHealth;
use crate::config::Config;

mod causes;
mod neighbours;
mod parent;
mod ports;
mod ranks;
mod switchml;

/// A share is called all of it from here on: what lacks is under way.
const ALL: f64 = 0.999_5;

/// How long others must have waited for a rank before it is worth a word: longer than a retransmission takes.
pub(crate) const STRAGGLES_NS: u64 = 100_000_000;

/// What a configuration lets a job have.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms {
    /// Whether it has a parameter server.
    pub(crate) server: bool,
    /// Slots that it may hold at a time; 0 for as many as it gets.
    pub(crate) quota: u32,
    /// Whether it sends updates, which have nothing to do with the pool.
    pub(crate) asynchronous: bool,
    /// Whether its workers are SwitchML's clients.
    pub(crate) switchml: bool,
    /// Its share, and what part of everything that is while all jobs are there; 0 for an unknown job.
    pub(crate) share: u16,
    pub(crate) part: f64,
    /// Why no rank may join.
    pub(crate) refused: Option<Sentence>,
}

impl Terms {
    /// A configured job.
    pub(crate) fn of_job(config: &Config, id: u16) -> Self {
        let Some(job) = config.jobs.iter().find(|job| job.spec.id == id) else { return Self::default() };
        let terms = Self::new(config, &job.spec);
        let (share, part) = (job.spec.share, config.part(job.spec.share));
        let (asynchronous, switchml) = (job.updates(), job.controller.is_some());
        Self { asynchronous, switchml, share, part, refused: job.spec.refused, ..terms }
    }

    /// Jobs that are formed by Joins.
    pub(crate) fn of_formed(config: &Config) -> Self {
        let none = Self { share: 1, part: config.part(1), ..Self::default() };
        config.admission.as_ref().map_or(none, |admission| Self::new(config, &admission.like))
    }

    fn new(config: &Config, spec: &JobSpec) -> Self {
        let quota = spec.kind.policy(spec.window).quota;
        Self { server: spec.kind.has_server(), quota, share: 1, part: config.part(1), ..Self::default() }
    }
}

/// What is known about a job.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) status: &'a JobStatus,
    pub(crate) name: &'a str,
    pub(crate) counted: &'a CellsReading,
    /// Ranks that others wait for, the longest first.
    pub(crate) late: &'a [Late],
    pub(crate) terms: Terms,
    /// All jobs.
    pub(crate) neighbours: &'a [Neighbour],
    /// The states of ranks that stall the others.
    pub(crate) missing: &'a RankReports,
    /// Lcores that do not turn.
    pub(crate) stalled: &'a [Stalled],
    /// All ports.
    pub(crate) ports: &'a [PortHealth],
    /// The time on the lcores' clock, in nanoseconds.
    pub(crate) now_ns: u64,
}

/// An lcore that does not turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stalled {
    pub(crate) lcore: usize,
    /// For how long.
    pub(crate) time: Duration,
}

impl Stalled {
    /// What can be done about it.
    pub(crate) const REMEDY: &'static str =
        "see what else is on its core (`ps -eLo psr,pid,tid,cls,comm`); else restart the appliance";
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lcore, time } = self;
        write!(f, "lcore {lcore} has not turned for {time:.1?}: the packets that it is to handle wait")
    }
}

/// Whether the job is aggregated here, and why not.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    /// `yes`, `partly`, `no`; `nothing`: there has been nothing to aggregate; `updates`: the job is
    /// asynchronous, and its updates are combined where they queue.
    pub(crate) aggregated: &'static str,
    pub(crate) share: Option<f64>,
    pub(crate) bytes: ExplainedBytes,
    /// In plain words.
    pub(crate) summary: String,
    /// The most important first.
    pub(crate) reasons: Vec<Reason>,
    /// The appliance above, if there is one.
    pub(crate) parent: Option<ExplainedParent>,
}

/// Where the bytes of contributions went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ExplainedBytes {
    /// Into results made here.
    pub(crate) aggregated: u64,
    /// To the parameter server, because they found no slot, or lost it.
    pub(crate) server: u64,
    /// Past the pool, because their senders wanted it so.
    pub(crate) bypassed: u64,
}

/// One reason why a job is not, or not wholly, or not quickly aggregated here.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Reason {
    /// For programs.
    #[schema(example = "straggler")]
    pub(crate) kind: String,
    /// How many packets, or ranks; none where that is no number.
    pub(crate) count: Option<u64>,
    /// The rank that it is about.
    pub(crate) rank: Option<u16>,
    /// For how long.
    pub(crate) seconds: Option<f64>,
    /// In plain words.
    pub(crate) text: String,
    /// What can be done about it.
    pub(crate) remedy: String,
}

/// Says whether a job is aggregated here, and if not, why.
pub(crate) fn diagnose(known: &Evidence<'_>) -> Diagnosis {
    if known.terms.asynchronous {
        return asynchronous(known);
    }
    let get = |event| known.counted.get(event);
    let bytes = ExplainedBytes {
        aggregated: get(JobEvent::AggregatedBytes),
        server: get(JobEvent::SpilledBytes) + get(JobEvent::EvictedBytes),
        bypassed: get(JobEvent::BypassedBytes),
    };
    let share = share(&bytes);
    let aggregated = match share {
        None => "nothing",
        Some(share) if share >= ALL => "yes",
        Some(share) if share > 0.0 => "partly",
        Some(_) => "no",
    };
    let parent = ExplainedParent::new(known);
    let reasons = reasons(known, parent.as_ref());
    let summary = told(known, (aggregated, share, &bytes), parent.as_ref(), &reasons);
    Diagnosis { aggregated, share, bytes, summary, reasons, parent }
}

/// Diagnoses a job that sends updates: what the pool knows says nothing about it.
fn asynchronous(known: &Evidence<'_>) -> Diagnosis {
    let mut reasons = Vec::new();
    let parent = ExplainedParent::new(known);
    reasons.extend(known.terms.refused.map(|why| {
        let text = format!("Objective: no rank may join, since {}.", why.as_str());
        Reason { text, ..Reason::plain("objective", OBJECTIVE) }
    }));
    stalled(known, &mut reasons);
    ports::reasons(known, &mut reasons);
    reasons.extend(parent.as_ref().and_then(ExplainedParent::reason));
    server(known, &mut reasons);
    members(known, &mut reasons);
    let counted = [Count::Drops(&[DropReason::WrongEpoch]), Count::Drops(&[DropReason::NotMember])];
    let causes = COUNTED.iter().filter(|cause| counted.contains(&cause.count));
    reasons.extend(causes.filter_map(|cause| cause.reason(known)));
    let (updates, answers) = (known.counted.contributions(), known.counted.get(JobEvent::Answers));
    let mut summary = format!(
        "Job {}{} is asynchronous: its updates are combined where they queue before a port. {updates} have \
         come, and its server has answered {answers} of those that left.",
        known.status.id,
        quoted(known.name),
    );
    summary.extend(parent.iter().map(|parent| format!(" {parent}")));
    if let Some(first) = reasons.first() {
        summary.push(' ');
        summary.push_str(&first.text);
    }
    let bytes = ExplainedBytes::default();
    Diagnosis { aggregated: "updates", share: None, bytes, summary, reasons, parent }
}

const OBJECTIVE: &str = "let fewer clusters send, less often, or raise length or rate of [ports.queue], \
                         and say so in the file of [admission] verify; `pascaline-fleet verify` shows what \
                         happens";

/// A job's name as it follows its number.
fn quoted(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" {name:?}") }
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn share(bytes: &ExplainedBytes) -> Option<f64> {
    let all = bytes.aggregated + bytes.server + bytes.bypassed;
    (all > 0).then(|| bytes.aggregated as f64 / all as f64)
}

fn told(
    known: &Evidence<'_>,
    (aggregated, share, bytes): (&str, Option<f64>, &ExplainedBytes),
    parent: Option<&ExplainedParent>,
    reasons: &[Reason],
) -> String {
    let id = known.status.id;
    let name = quoted(known.name);
    let percent = share.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share));
    let mut text = match aggregated {
        "yes" => format!("Job {id}{name} is aggregated here: {} bytes, all of it.", bytes.aggregated),
        "partly" => format!("Job {id}{name} is partly aggregated here: {percent} of its bytes."),
        "no" => format!("Job {id}{name} is not aggregated here."),
        _ => format!("Job {id}{name}: there has been nothing to aggregate here yet."),
    };
    if known.status.payload > 0 {
        text.push_str(&format!(" Its packets carry up to {} bytes.", known.status.payload));
    }
    text.push_str(&audience(known.status));
    let parent = parent.map(ToString::to_string);
    for more in parent.iter().chain(reasons.first().map(|first| &first.text)) {
        text.push(' ');
        text.push_str(more);
    }
    text
}

/// Which ranks a multicast group is heard by, and which not.
fn audience(status: &JobStatus) -> String {
    const NAMED: usize = 8;
    let Some((group, hears)) = status.multicast else { return String::new() };
    let all = format!(" Multicast group {group} is heard by {} of {} ranks", hears.len(), status.fan_in);
    let deaf: Vec<String> = hears.missing(status.fan_in).iter().map(|rank| rank.to_string()).collect();
    match deaf.len() {
        0 => format!("{all}."),
        few if few <= NAMED => format!("{all}, not by {}: these get results by unicast.", deaf.join(", ")),
        _ => format!("{all}; the others get results by unicast."),
    }
}

/// What there is to say, the most important first.
fn reasons(known: &Evidence<'_>, parent: Option<&ExplainedParent>) -> Vec<Reason> {
    let mut all = Vec::new();
    stalled(known, &mut all);
    ports::reasons(known, &mut all);
    all.extend(parent.and_then(ExplainedParent::reason));
    server(known, &mut all);
    members(known, &mut all);
    ranks::reasons(known, &mut all);
    all.extend(neighbours::reason(known));
    let mut counted: Vec<Reason> = COUNTED.iter().filter_map(|cause| cause.reason(known)).collect();
    // Of those that are counted, the most frequent first.
    counted.sort_by_key(|reason| core::cmp::Reverse(reason.count));
    all.extend(counted);
    if known.terms.switchml {
        all.iter_mut().for_each(switchml::adapt);
    }
    all
}

impl Reason {
    fn plain(kind: &str, remedy: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            count: None,
            rank: None,
            seconds: None,
            text: String::new(),
            remedy: remedy.to_owned(),
        }
    }
}

/// Whether an lcore stalls: nothing that is told of ranks then is certain.
fn stalled(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    all.extend(known.stalled.iter().map(|stalled| Reason {
        seconds: Some(stalled.time.as_secs_f64()),
        text: sentence(&stalled.to_string()),
        ..Reason::plain("lcore-stalled", Stalled::REMEDY)
    }));
}

/// Something as a sentence.
fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(text.len().min(1));
    format!("{}{rest}.", first.to_uppercase())
}

impl Evidence<'_> {
    /// What is known of missing ranks, behind something that counts them.
    fn told(&self) -> String {
        if self.missing.as_slice().is_empty() { String::new() } else { format!(": {}", self.missing) }
    }
}

/// What the membership has to do with it.
fn members(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    let JobStatus { fan_in, joined, lost, halted, broken, complete, .. } = *known.status;
    if broken {
        let text =
            format!("Of {fan_in} ranks {lost} are lost, and the others' operations fail{}.", known.told());
        let remedy = "start the lost workers again, or set on_death = \"continue\"";
        all.push(Reason { count: Some(u64::from(lost)), text, ..Reason::plain("rank-lost", remedy) });
    } else if !complete && joined == 0 {
        let text = "No rank has joined.".to_owned();
        let remedy = "start the workers, and let them use the appliance's address and this job's number";
        all.push(Reason { count: Some(u64::from(fan_in)), text, ..Reason::plain("not-member", remedy) });
    } else if !complete {
        let missing = fan_in - joined - lost.min(fan_in - joined);
        let text = format!("{missing} of {fan_in} ranks are not here: the others wait{}.", known.told());
        let remedy = "start the missing workers; GET /api/v1/jobs/{job} lists who is here";
        all.push(Reason { count: Some(u64::from(missing)), text, ..Reason::plain("not-member", remedy) });
    }
    if halted {
        let text = "Halted: a worker or an operator has suspended the job.".to_owned();
        let remedy = format!("pascaline job reset {}; its workers join anew", known.status.id);
        all.push(Reason { text, ..Reason::plain("halted", &remedy) });
    }
}

/// Whether the parameter server that the job expects is here.
fn server(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    let (missing, without) = match (known.status.server, known.terms.asynchronous) {
        (ServerState::Missing, true) => ("has not come", "no update is applied"),
        (ServerState::Missing, false) => ("has not come", "the job goes on without one"),
        (_, true) => ("has gone: it does not register any more", "no update is applied until it is back"),
        (_, false) => ("has gone: it does not register any more", "the job goes on without it"),
    };
    if known.status.server.is_lacking() {
        let text = format!("The parameter server {missing}; {without}.");
        let remedy =
            "start `pascaline ps` at the address in [ps], with the same file; it is taken up at once";
        all.push(Reason { text, ..Reason::plain("server-gone", remedy) });
    }
}

#[cfg(test)]
mod tests;
