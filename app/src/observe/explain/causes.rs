//! Reasons that are counts: what happened to how many packets, and what can be done about it.

use pascaline_telemetry::{CellsReading, DropReason, JobEvent};

use super::{Evidence, Reason};

/// Something that is counted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
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
pub(super) struct Cause {
    kind: &'static str,
    pub(super) count: Count,
    /// What happened to as many of them; without a parameter server, and with one.
    text: [&'static str; 2],
    remedy: &'static str,
}

impl Cause {
    pub(super) fn reason(&self, known: &Evidence<'_>) -> Option<Reason> {
        let count = self.count.of(known.counted);
        let [without, with] = self.text;
        let text = if known.terms.server { with } else { without };
        let quota = known.terms.quota.to_string();
        let share = format!("{} ({:.0} %)", known.terms.share, 100.0 * known.terms.part);
        let told =
            || text.replace("{n}", &count.to_string()).replace("{quota}", &quota).replace("{share}", &share);
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
const MISMATCHES: [DropReason; 8] = [
    DropReason::PayloadLength,
    DropReason::FanInMismatch,
    DropReason::FanInChanged,
    DropReason::LengthChanged,
    DropReason::ElementChanged,
    DropReason::OperationChanged,
    DropReason::DType,
    DropReason::BadCount,
];

pub(super) const COUNTED: [Cause; 19] = [
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
        "slot-share",
        Count::Event(JobEvent::OverShare),
        [
            "Slot share: {n} contributions came while the job held its share of the slots, {share}, and \
                other jobs theirs; they had to be sent again.",
            "Slot share: {n} contributions came while the job held its share of the slots, {share}, and \
                other jobs theirs; they went to the parameter server.",
        ],
        "raise the job's share or [pool] slots, lower its window, or give it a region of its own",
    ),
    cause(
        "given-back",
        Count::Event(JobEvent::GivenBack),
        both(
            "Given back: {n} partials lost slots that the job had borrowed beyond its share, {share}, \
                because the owner wanted them.",
        ),
        "raise the job's share or [pool] slots, or lower its window",
    ),
    cause(
        "packet-share",
        Count::Drops(&[DropReason::PacketShare]),
        both(
            "Packet share: {n} packets were dropped: the job exceeded its share, {share}, of packets \
             that never lead to a result, over time or while the lcore was overloaded.",
        ),
        "find out why the job's PSNs do not complete (a straggler?); raise its share, or add lcores",
    ),
    cause(
        "server-share",
        Count::Drops(&[DropReason::ServerShare]),
        both(
            "Server share: {n} packets for the parameter server were dropped: the job exceeded its \
             share, {share}, of packets that never lead to a result.",
        ),
        "find out why the job's PSNs do not complete (a straggler?), or raise its share",
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
        "raise slots in the table of the job's kind: twice the window",
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
        "normal after a restart of workers; otherwise a worker of an earlier run is still there",
    ),
    cause(
        "not-member",
        Count::Drops(&[DropReason::NotMember]),
        both("Not member: {n} packets came from ranks that have not joined."),
        "have these workers join; check that they use this job's number",
    ),
    cause(
        "outside-window",
        Count::Drops(&[DropReason::OutsideWindow]),
        both(
            "Outside the window: {n} packets named PSNs or slots that no rank of the job can have under way.",
        ),
        "a few arrive late, after losses; otherwise packets are forged, or a client breaks the spread \
         rule: capture the port",
    ),
    cause(
        "too-often",
        Count::Drops(&[DropReason::TooOften]),
        both("Too often: {n} reminders or kept results were more than their rank may send."),
        "normal for a moment after a restart; otherwise packets are sent in a rank's name",
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
        "`pascaline job reset JOB`; its workers join anew",
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
