//! The appliance above, to which the job's sums go.

use core::fmt;

use pascaline_pipelines::membership::{HopStatus, UplinkState, UplinkStatus};
use pascaline_seal::Protection;
use pascaline_telemetry::JobEvent;
use pascaline_wire::frame::Address;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Evidence, Reason};

/// The appliance that adds up what this one sends, and how this one stands with it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct ExplainedParent {
    /// Address and UDP port.
    #[schema(example = "10.0.1.254 port 16420")]
    pub(crate) address: String,
    /// It has taken the place of the one that is configured first.
    pub(crate) backup: bool,
    /// This appliance's rank in the parent's job.
    pub(crate) rank: u16,
    /// The ranks of the parent's job.
    pub(crate) ranks: u16,
    /// Of these, the ranks that have joined, as the parent's last answer says.
    pub(crate) joined: u16,
    /// `idle`: it is not asked before all ranks are here; `silent`: it does not answer; `pending`: others
    /// are missing there; `refused`, `joined`, `leaving`.
    #[schema(example = "joined")]
    pub(crate) state: &'static str,
    /// The host that does not answer ARP or neighbour discovery: the parent, or a router on the way.
    #[schema(example = "parent 10.0.1.254 does not answer ARP")]
    pub(crate) unreachable: Option<String>,
    /// Why it refuses.
    pub(crate) refusal: Option<String>,
    /// The `security` of its job, where it cannot open what this appliance sends.
    pub(crate) demands: Option<&'static str>,
    /// For how long it has not answered.
    pub(crate) silent_seconds: f64,
    /// Sums and kept results that went to it, those of them that it had been sent before, and packets of it.
    pub(crate) packets_up: u64,
    pub(crate) packets_up_again: u64,
    pub(crate) packets_down: u64,
    /// What goes up: updates, or sums.
    #[serde(skip)]
    pub(super) updates: bool,
}

impl ExplainedParent {
    /// Of a job that has one.
    pub(super) fn new(known: &Evidence<'_>) -> Option<Self> {
        let UplinkStatus { parent, place, state, joined, silent, hop, demand, .. } = known.status.uplink?;
        let get = |event| known.counted.get(event);
        let (again, endpoint) = (get(JobEvent::SentUpAgain), parent.endpoint);
        Some(Self {
            address: format!("{} port {}", endpoint.address, endpoint.udp_port),
            backup: place > 0,
            rank: parent.rank,
            ranks: parent.ranks,
            joined,
            state: match state {
                UplinkState::Idle => "idle",
                UplinkState::NoAnswer => "silent",
                UplinkState::Pending => "pending",
                UplinkState::Refused(_) => "refused",
                UplinkState::Joined => "joined",
                UplinkState::Leaving => "leaving",
            },
            unreachable: hop
                .filter(HopStatus::is_silent)
                .map(|hop| unreachable(endpoint.address, hop.address)),
            refusal: if let UplinkState::Refused(why) = state { Some(why.to_string()) } else { None },
            demands: demand.map(|code| {
                let demanded = Protection::ALL.into_iter().find(|protection| protection.code() == code);
                demanded.map_or("none", Protection::name)
            }),
            silent_seconds: silent.as_secs_f64(),
            packets_up: get(JobEvent::SentUp) + again,
            packets_up_again: again,
            packets_down: get(JobEvent::FromAbove),
            updates: known.terms.asynchronous,
        })
    }

    /// What keeps the job from going on, if it is this.
    pub(super) fn reason(&self) -> Option<Reason> {
        let Self { address, rank, ranks, joined, silent_seconds, .. } = self;
        let (kind, text, remedy) = match (self.state, &self.refusal, &self.unreachable) {
            ("silent", ..) if let Some(demands) = self.demands => (
                "parent-unproven",
                format!(
                    "The parent, {address}, cannot open what this appliance sends as rank {rank}: its job \
                     has security = {demands:?}, or another key. The ranks wait."
                ),
                "give `parent` here the security and key_file that the job has there",
            ),
            ("silent", _, Some(unreachable)) => (
                "parent-unreachable",
                format!("Nothing can go to the parent, {address}: {unreachable}. The ranks wait."),
                "start it, or look at cable and VLAN, and at port, from and via of `parent`; with `mac` \
                 there no answer is needed",
            ),
            ("silent", ..) => (
                "parent-silent",
                format!("The parent, {address}, has not answered for {silent_seconds:.1} s: the ranks wait."),
                "start that appliance, or look at the way to it (mac, via, port and from of `parent`); the \
                 job goes on by itself",
            ),
            (_, Some(why), _) => (
                "parent-refuses",
                format!("The parent, {address}, refuses this appliance as rank {rank} of {ranks}: {why}."),
                "compare `parent` with the job of this number there: its fan_in, members and payloads",
            ),
            ("pending", ..) => (
                "parent-pending",
                format!("At the parent, {address}, {joined} of {ranks} ranks have joined: all wait."),
                "`pascaline explain` at the parent says who is missing",
            ),
            _ => return None,
        };
        let seconds = (self.state == "silent").then_some(*silent_seconds);
        Some(Reason { seconds, text, ..Reason::plain(kind, remedy) })
    }
}

impl fmt::Display for ExplainedParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, rank, ranks, state, packets_up, packets_up_again, packets_down, .. } = self;
        let backup = if self.backup { "a backup, " } else { "" };
        if self.updates {
            return write!(
                f,
                "What leaves goes to {address} (rank {rank} of {ranks}, {state}): {packets_up} packets up, \
                 {packets_down} down."
            );
        }
        write!(
            f,
            "Its sums go to {address} ({backup}rank {rank} of {ranks}, {state}): {packets_up} packets up, \
             {packets_up_again} of them again, {packets_down} down."
        )
    }
}

/// Whose MAC is asked for: the parent's, or that of a router on the way.
pub(crate) fn next_hop(parent: Address, hop: Address) -> String {
    let what = if hop == parent { "parent" } else { "router" };
    format!("{what} {hop}")
}

/// That it does not say it.
pub(crate) fn unreachable(parent: Address, hop: Address) -> String {
    let how = hop.as_v4().map_or("neighbour discovery", |_| "ARP");
    format!("{} does not answer {how}", next_hop(parent, hop))
}

#[cfg(test)]
mod tests;
