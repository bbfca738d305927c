//! Who slows a job down: the other jobs whose packets come to nothing.

use pascaline_telemetry::{CellsReading, DropReason, JobEvent};

use super::{Evidence, Reason};

/// How long ago a neighbour may have been heard of, in nanoseconds.
const RECENT_NS: u64 = 3_000_000_000;
/// Unproductive packets before they are reported: a few windows, as after a restart.
const WORTH: u64 = 10_000;

/// What one job knows of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) id: u16,
    pub(crate) name: String,
    /// Packets of it that came.
    packets: u64,
    /// Those of them that came to no result.
    wasted: u64,
    /// Those of them that were held back for its share's sake, and partials that it had to give back.
    limited: u64,
    heard_ns: u64,
}

impl Neighbour {
    /// What there is to know of a job with these counts. An asynchronous one has no results: its updates are
    /// combined where they queue, which takes no slot of others.
    pub(crate) fn new(id: u16, name: &str, counted: &CellsReading, asynchronous: bool) -> Self {
        let shares = [DropReason::PacketShare, DropReason::ServerShare];
        let cut: u64 = shares.map(|reason| counted.dropped(reason)).iter().sum();
        let packets = counted.contributions() + counted.dropped(DropReason::PacketShare);
        let served = counted.get(JobEvent::ServerResults) * counted.ranks.len() as u64;
        let finished = counted.get(JobEvent::Aggregated) + served;
        Self {
            id,
            name: name.to_owned(),
            packets,
            wasted: if asynchronous { 0 } else { packets.saturating_sub(finished) },
            limited: cut + counted.get(JobEvent::OverShare) + counted.get(JobEvent::GivenBack),
            heard_ns: counted.ranks.iter().map(|rank| rank.heard_ns).max().unwrap_or(0),
        }
    }

    /// True if it sends now, and most of its packets are unproductive.
    fn disturbs(&self, now_ns: u64) -> bool {
        let recent = now_ns.saturating_sub(self.heard_ns) <= RECENT_NS;
        recent && self.wasted >= WORTH && self.wasted > self.packets / 2
    }
}

/// The neighbour that slows the job down: the one with the most unproductive packets.
pub(super) fn reason(known: &Evidence<'_>) -> Option<Reason> {
    let (others, own) = (known.neighbours, known.status.id);
    let disturbing = others.iter().filter(|other| other.id != own && other.disturbs(known.now_ns));
    let Neighbour { id, name, packets, wasted, limited, .. } = disturbing.max_by_key(|other| other.wasted)?;
    let name = super::quoted(name);
    let text = format!(
        "Slowed by job {id}{name}: of its {packets} packets {wasted} never led to a result, but took time of \
         the lcore; {limited} were refused beyond its share."
    );
    let remedy = format!(
        "`pascaline explain {id}` says why; raise this job's share, lower that one's, or give the appliance \
            more lcores"
    );
    Some(Reason { count: Some(*wasted), text, ..Reason::plain("neighbour", &remedy) })
}
