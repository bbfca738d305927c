//! Packets of SwitchML's clients.

use pascaline_aggregator::{Key, Request, Verb};
use pascaline_telemetry::DropReason;
use pascaline_wire::switchml::{self, Packet};

use super::{Class, Classifier};
use crate::switchml::Belongs;

/// Where the exponents begin: there are no tags and no options.
const OFFSET: u16 = 50;
const _: () = assert!(switchml::HEADERS == OFFSET as usize);

impl Classifier<'_> {
    /// What has to be done with a frame for the port of a job of SwitchML's clients; `None` for any other.
    #[cold]
    #[inline(never)]
    pub(super) fn foreign(&self, bytes: &[u8]) -> Option<Class> {
        let packet = Packet::parse(bytes)?;
        let (job, registry) = self.table.foreign(packet.dst_port)?;
        // Workers are told the first port's; by what ARP says, one may send to the MAC of its own port.
        let told = self.setup.ports.first().map(|port| port.mac);
        let heard = Some(packet.dst_mac) == told || packet.dst_mac == self.mac;
        if packet.dst.as_v4() != Some(registry.address) || !heard {
            return None;
        }
        let drop = |reason| Some(Class::ForeignDrop(job.id, reason));
        let Some(body) = packet.body else { return drop(DropReason::Length) };
        let rank = (0..).zip(job.members()).find(|(_, member)| {
            member.is_some_and(|member| {
                (member.endpoint.mac, member.endpoint.address) == (packet.src_mac, packet.src)
            })
        });
        // Without a formation there is no member either: the appliance was started anew, or the job reset.
        let Some(((rank, _), switchml)) = rank.zip(job.switchml.as_deref()) else {
            return drop(DropReason::NotMember);
        };
        if job.halted {
            return drop(DropReason::Halted);
        }
        let Belongs { psn, again } = match switchml.psn(rank, (self.port, self.now), packet.src_port, &body) {
            Ok(belongs) => belongs,
            Err(reason) => return drop(reason),
        };
        Some(Class::Foreign(Request {
            verb: Verb::Add,
            key: Key::new(job.id, job.epoch, psn),
            rank,
            fan_in: job.fan_in,
            job_fan_in: job.fan_in,
            needed: job.fan_in,
            count: 1,
            inside: 0,
            element: switchml::ELEMENT,
            overflow: false,
            again,
            marked: false,
            partial: false,
            priority: 0,
            rules: job.rules(),
            offset: OFFSET,
            len: body.size.summed(),
            now: self.now,
        }))
    }
}
