//! Why a job is aggregated here, or not: from its counters, in plain words.

use std::time::Duration;

use pascaline_pipelines::Mode;
use pascaline_pipelines::membership::{JobStatus, ServerState};
use pascaline_telemetry::{CellsReading, DropReason, JobEvent, Late};
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::{Config, PsMode};

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
}

impl Terms {
    /// A configured job.
    pub(crate) fn of_job(config: &Config, id: u16) -> Self {
        let Some(job) = config.jobs.iter().find(|job| job.id == id) else { return Self::default() };
        let terms = Self::new(config, job.policy.server, job.policy.quota);
        Self { asynchronous: job.mode == Mode::Olaf, ..terms }
    }

    /// Jobs that are formed by Joins.
    pub(crate) fn of_formed(config: &Config) -> Self {
        let policy = config.admission.as_ref().map(|admission| admission.policy).unwrap_or_default();
        Self::new(config, policy.server, policy.quota)
    }

    fn new(config: &Config, server: bool, quota: u32) -> Self {
        let server = server && !matches!(config.ps.mode.value, PsMode::None);
        Self { server, quota, asynchronous: false }
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
    let reasons = reasons(known);
    let summary = told(known, aggregated, share, &bytes, &reasons);
    Diagnosis { aggregated, share, bytes, summary, reasons }
}

/// Diagnoses a job that sends updates: what the pool knows says nothing about it.
fn asynchronous(known: &Evidence<'_>) -> Diagnosis {
    let mut reasons = Vec::new();
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
    if let Some(first) = reasons.first() {
        summary.push(' ');
        summary.push_str(&first.text);
    }
    Diagnosis { aggregated: "updates", share: None, bytes: ExplainedBytes::default(), summary, reasons }
}

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
    aggregated: &str,
    share: Option<f64>,
    bytes: &ExplainedBytes,
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
    if let Some(first) = reasons.first() {
        text.push(' ');
        text.push_str(&first.text);
    }
    text
}

/// What there is to say, the most important first.
fn reasons(known: &Evidence<'_>) -> Vec<Reason> {
    let mut all = Vec::new();
    server(known, &mut all);
    members(known, &mut all);
    stragglers(known, &mut all);
    let mut counted: Vec<Reason> = COUNTED.iter().filter_map(|cause| cause.reason(known)).collect();
    // Of those that are counted, the most frequent first.
    counted.sort_by_key(|reason| core::cmp::Reverse(reason.count));
    all.extend(counted);
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

/// What the membership has to do with it.
fn members(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    let JobStatus { fan_in, joined, lost, halted, broken, complete, .. } = *known.status;
    if broken {
        let text = format!("Of {fan_in} ranks {lost} are lost, and the job was to fail then.");
        let remedy = "start the lost workers again, or set on_death = \"continue\"";
        all.push(Reason { count: Some(u64::from(lost)), text, ..Reason::plain("rank-lost", remedy) });
    } else if !complete && joined == 0 {
        let text = "No rank has joined.".to_owned();
        let remedy = "start the workers, and let them use the appliance's address and this job's number";
        all.push(Reason { count: Some(u64::from(fan_in)), text, ..Reason::plain("not-member", remedy) });
    } else if !complete {
        let missing = fan_in - joined - lost.min(fan_in - joined);
        let text = format!("{missing} of {fan_in} ranks have not joined: the others wait for them.");
        let remedy = "start the missing workers; GET /api/v1/jobs/{job} lists who is here";
        all.push(Reason { count: Some(u64::from(missing)), text, ..Reason::plain("not-member", remedy) });
    }
    if halted {
        let text = "A worker has suspended the job (Halt).".to_owned();
        all.push(Reason { text, ..Reason::plain("halted", "have a worker reset it (Reset)") });
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

/// Who holds the others up.
fn stragglers(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    for late in known.late.iter().filter(|late| late.waited() >= STRAGGLES_NS) {
        let waited = Duration::from_nanos(late.waited()).as_secs_f64();
        let text =
            format!("Rank {} is a straggler: the others have waited for it for {waited:.1} s.", late.rank);
        let remedy = "look at that worker and its link; threshold or partial_after lets the others go on";
        let seconds = Some(waited);
        all.push(Reason { rank: Some(late.rank), seconds, text, ..Reason::plain("straggler", remedy) });
    }
}

/// Something that is counted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Event(JobEvent),
    /// Packets dropped for any of these reasons.
    Drops(&'static [DropReason]),
}

impl Count {
    fn of(self, counted: &CellsReading) -> u64 {
        match self {
            Self::Event(event) => counted.get(event),
            Self::Drops(reasons) => reasons.iter().map(|&reason| counted.dropped(reason)).sum(),
        }
    }
}

/// A reason that is a count.
struct Cause {
    kind: &'static str,
    count: Count,
    /// What happened to as many of them; without a parameter server, and with one.
    text: [&'static str; 2],
    remedy: &'static str,
}

impl Cause {
    fn reason(&self, known: &Evidence<'_>) -> Option<Reason> {
        let count = self.count.of(known.counted);
        let [without, with] = self.text;
        let text = if known.terms.server { with } else { without };
        let quota = known.terms.quota.to_string();
        let told = || text.replace("{n}", &count.to_string()).replace("{quota}", &quota);
        (count > 0).then(|| Reason {
            count: Some(count),
            text: told(),
            ..Reason::plain(self.kind, self.remedy)
        })
    }
}

const fn cause(kind: &'static str, count: Count, text: [&'static str; 2], remedy: &'static str) -> Cause {
    Cause { kind, count, text, remedy }
}

const fn both(text: &'static str) -> [&'static str; 2] {
    [text, text]
}

/// What is dropped because it does not fit what the others have sent.
const MISMATCHES: [DropReason; 7] = [
    DropReason::PayloadLength,
    DropReason::FanInMismatch,
    DropReason::FanInChanged,
    DropReason::LengthChanged,
    DropReason::ElementChanged,
    DropReason::DType,
    DropReason::BadCount,
];

const COUNTED: [Cause; 13] = [
    cause(
        "collision",
        Count::Event(JobEvent::Collisions),
        [
            "Collisions: {n} contributions found all slots of their set taken, and had to be sent again.",
            "Collisions: {n} contributions found all slots of their set taken, and went to the parameter \
                server.",
        ],
        "raise [pool] slots or ways, lower windows, or give the job a region of its own",
    ),
    cause(
        "quota",
        Count::Event(JobEvent::OverQuota),
        [
            "Quota: {n} contributions came while the job held the {quota} slots that it may, and had to be \
                sent again.",
            "Quota: {n} contributions came while the job held the {quota} slots that it may, and went to \
                the parameter server.",
        ],
        "raise the job's quota, or lower its window",
    ),
    cause(
        "preempted",
        Count::Event(JobEvent::Preempted),
        [
            "Preempted: {n} partials lost their slot to another PSN before their time; their contributions \
                had to be sent again.",
            "Preempted: {n} partials lost their slot to another PSN before their time, and went to the \
                parameter server.",
        ],
        "raise [pool] slots, lower the other jobs' priorities, or give the job a region of its own",
    ),
    cause(
        "contention",
        Count::Event(JobEvent::Contended),
        both("Contention: {n} contributions were for another lcore, which had too many waiting already."),
        "have the NIC steer each PSN's packets to the lcore where its slot is (`udp_ports` in \
            [appliance]), or give the appliance more lcores",
    ),
    cause(
        "stale",
        Count::Drops(&[DropReason::Stale]),
        both("Late: {n} contributions were for PSNs whose place in the region belongs to later ones."),
        "raise region_slots: it should be twice the window",
    ),
    cause(
        "given-up",
        Count::Event(JobEvent::GivenUp),
        both("Given up: {n} partials were dropped, for their age or because their generation was over."),
        "raise [pool] age_limit if ranks are apart for so long; after a restart of workers it is as it \
            should be",
    ),
    cause(
        "bypass",
        Count::Event(JobEvent::Bypassed),
        both("Bypass: {n} contributions went past the pool, as their senders wanted."),
        "it is what workers do for what was lost before: look for loss between them and the appliance",
    ),
    cause(
        "server-full",
        Count::Event(JobEvent::ServerFull),
        both("The parameter server was behind: {n} packets for it were dropped."),
        "raise memory_mb in [ps], give the main core less to do, or run it as a process of its own",
    ),
    cause(
        "wrong-epoch",
        Count::Drops(&[DropReason::WrongEpoch]),
        both("Wrong epoch: {n} packets were of another generation of the job."),
        "after a restart of workers it passes; else a worker of an earlier run is still there",
    ),
    cause(
        "not-member",
        Count::Drops(&[DropReason::NotMember]),
        both("Not member: {n} packets came from ranks that have not joined."),
        "have these workers join; check that they use this job's number",
    ),
    cause(
        "rank-spoofed",
        Count::Drops(&[DropReason::RankSpoofed, DropReason::RankOutOfRange]),
        both(
            "Spoofed: {n} packets did not come from the address of their rank, or named a rank that there \
                is not.",
        ),
        "look for two workers with the same rank, or NAT between workers and appliance",
    ),
    cause(
        "halted",
        Count::Drops(&[DropReason::Halted]),
        both("Halted: {n} packets came while the job was suspended."),
        "have a worker reset it (Reset)",
    ),
    cause(
        "mismatch",
        Count::Drops(&MISMATCHES),
        both("Mismatch: {n} packets differed from the others of their PSN in fan-in, length or element."),
        "start all workers of the job with the same settings",
    ),
];

#[cfg(test)]
mod tests;
