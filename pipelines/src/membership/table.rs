//! A job as lcores are to see it.

use std::sync::Arc;

use pascaline_wire::frame::Mac;

use super::job::{JobRecord, source};
use super::rank::{Joined, Rank};
use super::server::ServerState;
use super::spec::{JobSpec, ServerMode};
use crate::jobs::{Above, Job, Member, Server, Sessions};
use crate::seals::Numbers;

impl JobRecord {
    /// The job as lcores see it. `mac` gives the MAC of a port, `numbers` number what is sealed for parents.
    pub(super) fn table(&self, numbers: &Numbers, mac: &impl Fn(usize) -> Mac) -> Job {
        let JobSpec { id, fan_in, kind, window, congestion, .. } = *self.spec;
        let member = |number, joined: Joined| {
            let (endpoint, mac) = (joined.endpoint, mac(joined.endpoint.port));
            let member = Member::new(endpoint, mac, id, number, fan_in, self.epoch).heeding(congestion, mac);
            if joined.is_appliance() { member.standing_for_others() } else { member }
        };
        let members = (0..)
            .zip(&self.ranks)
            .map(|(number, rank)| rank.joined.map(|joined| member(number, joined)))
            .collect();
        let mut job = Job::new(id, fan_in, self.epoch, self.payload, members);
        if let Some(group) = self.spec.multicast {
            for (number, Joined { endpoint, .. }) in self.members().filter(|(_, joined)| joined.hears) {
                job.hear(group, number, endpoint, (congestion, mac(endpoint.port)));
            }
        }
        job.needed = self.needed();
        job.partials = kind.is_early();
        job.halted = self.is_halted();
        job.mode = kind.mode();
        job.policy = kind.policy(window);
        (job.tenant, job.spec) = (self.tenant, Arc::clone(&self.spec));
        job.cells = Arc::clone(&self.cells);
        job.window = self.window();
        job.registry = kind.registry();
        let session = |rank: &Rank| rank.latest.map(|latest| (latest.session, latest.source));
        job.sessions = Sessions {
            ranks: self.ranks.iter().map(session).collect(),
            server: self.server.map(|server| (server.session, source(&server.endpoint))),
            parent: self.session_above(),
        };
        (job.seals, job.switchml) = (self.seals.clone(), self.switchml.clone());
        job.server = match kind.server() {
            ServerMode::None => Server::None,
            ServerMode::Embedded => Server::Embedded,
            // What would be sent to it before it is known where it is, or when it is gone, would be lost.
            ServerMode::External { .. } => {
                self.server.as_ref().filter(|_| self.served.is_some()).map_or(Server::None, |server| {
                    Server::external(server.endpoint, mac(server.endpoint.port))
                })
            }
        };
        job.bereft = self.server_state() == ServerState::Gone;
        job.parent = self.uplink.as_ref().map(|uplink| {
            let mac = mac(uplink.parent().endpoint.port);
            let above = Above::new(uplink.parent(), mac);
            let (senders, next_hops) = (uplink.senders().collect(), uplink.next_hops().collect());
            let (member, aliases) = (above.member.heeding(congestion, mac), Arc::clone(&self.aliases));
            let seals = uplink.seals(numbers);
            Box::new(Above { member, senders, next_hops, aliases, seals, ..above })
        });
        job
    }
}
