//! Finding out whether multicast reaches a member: the Ack to its Join names the job's group, the member
//! listens, and says so; then the same Ack goes to the group, too. Once it has come that way the member says
//! that it hears, and gets results so. Until then, and where switches on the way let nothing through, it gets
//! them by unicast, as all others do.

use pascaline_wire::frame::Mac;
use pascaline_wire::multicast::Hearing;
use pascaline_wire::{MulticastGroup, RankSet};

use super::job::JobRecord;
use super::rank::Joined;
use super::reply::{Answer, ControlRequest, Reply};
use super::spec::JobSpec;
use crate::jobs::Endpoint;
use crate::jobs::hearers::towards;
use crate::seals::Sealing;

impl JobSpec {
    /// True if the sender of a Join hears the job's group, as a member that is a worker.
    pub(super) fn is_heard_by(&self, join: &ControlRequest) -> bool {
        let ControlRequest { control, from, .. } = join;
        let suits = self.multicast.is_some_and(|group| group.admits(from.address));
        suits && control.workers == 0 && control.hearing == Hearing::Hears
    }
}

impl Joined {
    /// Comes from there, and hears the group or does not. True if either is news.
    pub(super) fn comes_from(&mut self, endpoint: Endpoint, hears: bool) -> bool {
        let news = (self.endpoint, self.hears) != (endpoint, hears);
        (self.endpoint, self.hears) = (endpoint, hears);
        news
    }
}

impl JobRecord {
    /// The job's group, and the ranks that hear it.
    pub(super) fn audience(&self) -> Option<(MulticastGroup, RankSet)> {
        let mut ranks = RankSet::EMPTY;
        for (number, _) in self.members().filter(|(_, joined)| joined.hears) {
            let _ = ranks.insert(number);
        }
        self.spec.multicast.map(|group| (group, ranks))
    }
}

impl Answer {
    /// True if the sender of the request listens to the group that the answer names: it goes there, too.
    pub(crate) fn is_heard(&self, to: &ControlRequest) -> bool {
        self.control.group.is_some() && to.control.hearing == Hearing::Listens
    }

    /// The answer once more, to the group that it names.
    pub(crate) fn probe(
        &self,
        to: &ControlRequest,
        local_mac: Mac,
        sealing: Option<Sealing<'_>>,
    ) -> Option<Reply> {
        let to = towards(self.control.group?, &to.from);
        Some(Reply::sealed(&to, local_mac, (&self.header, &self.control), sealing))
    }
}
