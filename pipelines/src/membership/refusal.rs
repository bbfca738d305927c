//! Whether a silent member exists at all.
//!
//! A newcomer that needs the place of silent members has them asked: each gets an Ack for a session that no
//! worker has, and ignores it. If no program has the member's port any more its host answers by ICMP,
//! and quotes the Ack. ICMP comes from anybody, so it counts only if it quotes that session: a number that
//! only this appliance could give, and only for this member, at its present address, in this question. It
//! counts for nothing but the question, and no longer than the member is silent.

use core::time::Duration;

use pascaline_wire::control::{Action, Control};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Element, Header, Kind};

use super::Membership;
use super::contest::Contest;
use super::job::JobRecord;
use super::liveness::Event;
use super::rank::{Joined, Rank};
use super::uplink::Neighbour;
use crate::jobs::Endpoint;

/// Time between two questions to a member.
const AGAIN: Duration = Duration::from_millis(100);
/// Members that are asked at a time. The others have their turn once these have been found to be gone.
const MOST: usize = 64;

/// A question to a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Where it goes.
    pub to: Endpoint,
    /// Its header.
    pub header: Header,
    /// Its body.
    pub control: Control,
}

/// A host says that it has no program at the port of a control packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The packet's job.
    pub job: u16,
    /// Its rank.
    pub rank: u16,
    /// Its destination.
    pub address: Address,
    /// The UDP port there.
    pub udp_port: u16,
    /// Its session.
    pub session: u64,
}

/// An answer to a question of the control plane's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A neighbour has answered a question for its MAC.
    Neighbour(Neighbour),
    /// A member's host says that it is gone.
    Refusal(Refusal),
}

impl Membership {
    /// Takes an answer to a question; one to no open question is ignored. Gives what is new.
    pub fn found(&mut self, now: Duration, found: &Found) -> Vec<Event> {
        match found {
            Found::Neighbour(said) => self.found_neighbour(now, said),
            Found::Refusal(refusal) => {
                let job = self.jobs.get_mut(&refusal.job);
                let believed = job.is_some_and(|job| job.refuse(now, refusal));
                self.ignored += u64::from(!believed);
                Vec::new()
            }
        }
    }

    /// Questions that are to be sent.
    pub fn take_asks(&mut self) -> Vec<Ask> {
        core::mem::take(&mut self.asks)
    }
}

impl JobRecord {
    /// Asks those who have not been found to be gone since the question is open.
    pub(super) fn ask_members(&self, now: Duration, contest: &mut Contest, asks: &mut Vec<Ask>) {
        if contest.asked.is_some_and(|asked| now < asked.saturating_add(AGAIN)) {
            return;
        }
        contest.asked = Some(now);
        let silent = self.present().filter(|(_, joined)| !joined.is_appliance() && !joined.is_gone(contest));
        for (rank, joined) in silent.take(MOST) {
            let about = Header::about(Kind::Control, Element::F32_SUM, self.spec.id, self.epoch ^ 0x8000);
            let header = Header { rank, fan_in: self.spec.fan_in, ..about };
            let session = self.session_of(rank, joined, contest);
            let control = Control { answers: Some(Action::Query), ..Control::request(Action::Ack, session) };
            asks.push(Ask { to: joined.endpoint, header, control });
        }
    }

    fn session_of(&self, rank: u16, joined: &Joined, contest: &Contest) -> u64 {
        let Endpoint { address, udp_port, .. } = joined.endpoint;
        let since = u64::try_from(contest.since.as_nanos()).unwrap_or(u64::MAX);
        self.secret.ask((self.spec.id, self.epoch, rank), (address, udp_port), since)
    }

    /// Takes note of a refusal. False if it is none of a question that is open.
    fn refuse(&mut self, now: Duration, refusal: &Refusal) -> bool {
        let &Refusal { rank, address, udp_port, session, .. } = refusal;
        let at = usize::from(rank);
        let joined = self.ranks.get(at).and_then(Rank::here).copied();
        let (Some(joined), Some(contest)) = (joined, self.rival) else { return false };
        let here = (joined.endpoint.address, joined.endpoint.udp_port) == (address, udp_port);
        if !here || session != self.session_of(rank, &joined, &contest) {
            return false;
        }
        self.ranks[at].joined = Some(Joined { refused: Some(now), ..joined });
        true
    }
}

impl Joined {
    /// True if its host has said so since the question is open, and nothing has been heard of it since.
    pub(super) fn is_gone(&self, contest: &Contest) -> bool {
        let silent = |refused| refused >= contest.since && self.seen().max(self.alive) <= refused;
        self.refused.is_some_and(silent)
    }
}

#[cfg(test)]
mod tests;
