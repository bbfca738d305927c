//! Workers that register at a controller instead of joining: SwitchML's own clients.
//!
//! Rank 0 comes first and begins a generation; the others follow. Nobody leaves, and nobody is missed: those
//! clients have no words for either.

use core::time::Duration;
use std::sync::Arc;

use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::switchml::{MOST_WORKERS, Size};

use super::Membership;
use super::generation::{Running, State};
use super::job::JobRecord;
use super::offer::Offer;
use super::rank::Joined;
use crate::jobs::{Endpoint, PsnWindow};
use crate::switchml::{SwitchMl, Terms};

/// How a job meets its workers, where these are SwitchML's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registry {
    /// The UDP port that they send to.
    pub udp_port: u16,
    /// The appliance's address that they are told.
    pub address: [u8; 4],
    /// Slots that they may name; a power of two.
    pub slots: u32,
}

/// Who registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registration {
    /// Its rank.
    pub rank: u32,
    /// Workers of the job, as it says.
    pub workers: u32,
    /// Its MAC.
    pub mac: Mac,
    /// Its address.
    pub address: [u8; 4],
    /// The code of its packets' size.
    pub size: u32,
}

/// Why a worker cannot register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum NotRegistered {
    #[error("there is no job {job} of SwitchML's clients any more")]
    NoSuchJob { job: u16 },
    #[error("{said} workers, and the job has fan_in = {fan_in}")]
    FanIn { said: u32, fan_in: u16 },
    #[error("rank {rank}, and the job has ranks 0 to {}", .fan_in - 1)]
    Rank { rank: u32, fan_in: u16 },
    #[error("packets of size {code}: they have 64 elements (size 1) or 256 (size 3)")]
    Size { code: u32 },
    #[error("packets of another size than rank 0's")]
    SizeDiffers,
    #[error("rank 0 has to register first: that begins the job anew")]
    NotBegun,
    #[error("MAC {mac} and address {} name no single host", core::net::Ipv4Addr::from(*.address))]
    NoHost { mac: Mac, address: [u8; 4] },
    #[error("the job is suspended")]
    Halted,
    #[error("rank {other} has the same MAC and address")]
    Twice { other: u16 },
}

impl Membership {
    /// Takes a worker of SwitchML's in; rank 0 begins the job anew. `mac` is that of the port that workers
    /// send to. Lcores need a new table then, and the worker its answer not before they have it.
    ///
    /// # Errors
    /// [`NotRegistered`]: nothing has changed.
    pub fn register(
        &mut self,
        now: Duration,
        job: u16,
        who: &Registration,
        mac: Mac,
    ) -> Result<Terms, NotRegistered> {
        let known = self.jobs.get_mut(&job).filter(|job| job.spec.kind.registry().is_some());
        let known = known.ok_or(NotRegistered::NoSuchJob { job })?;
        known.told.set(None);
        known.register(now, who, mac)
    }
}

impl JobRecord {
    fn register(&mut self, now: Duration, who: &Registration, mac: Mac) -> Result<Terms, NotRegistered> {
        let none = NotRegistered::NoSuchJob { job: self.spec.id };
        let Registry { udp_port, address, slots } = self.spec.kind.registry().ok_or(none)?;
        let fan_in = self.spec.fan_in.min(MOST_WORKERS);
        if who.workers != u32::from(fan_in) {
            return Err(NotRegistered::FanIn { said: who.workers, fan_in });
        }
        let rank = u16::try_from(who.rank).ok().filter(|rank| *rank < fan_in);
        let rank = rank.ok_or(NotRegistered::Rank { rank: who.rank, fan_in })?;
        let size = Size::from_code(who.size).ok_or(NotRegistered::Size { code: who.size })?;
        let from = Address::from_v4(who.address);
        if who.mac.is_group() || who.mac == Mac::default() || !is_a_host(who.address) {
            return Err(NotRegistered::NoHost { mac: who.mac, address: who.address });
        }
        if self.is_halted() {
            return Err(NotRegistered::Halted);
        }
        let terms = Terms { udp_port, mac, address, slots, size };
        if rank == 0 {
            self.unresumable.set(self.epoch, true);
            self.next_generation(false);
            self.switchml = Some(Arc::new(SwitchMl::new(terms, fan_in)));
        }
        let told = *self.switchml.as_ref().ok_or(NotRegistered::NotBegun)?.terms();
        if told.size != size {
            return Err(NotRegistered::SizeDiffers);
        }
        let same = |joined: &Joined| (joined.endpoint.mac, joined.endpoint.address) == (who.mac, from);
        if let Some((other, _)) = self.members().find(|&(other, joined)| other != rank && same(joined)) {
            return Err(NotRegistered::Twice { other });
        }
        self.take_in(now, rank, who, &told);
        Ok(told)
    }

    fn take_in(&mut self, now: Duration, rank: u16, who: &Registration, told: &Terms) {
        let endpoint = Endpoint {
            // Each packet says where it came in.
            port: 0,
            mac: who.mac,
            vlan: VlanTags::NONE,
            address: Address::from_v4(who.address),
            udp_port: 0,
            local: Address::from_v4(told.address),
            local_udp_port: told.udp_port,
            dscp: 0,
        };
        let payload = told.size.summed();
        let member = Joined::new(now, endpoint, Offer::exactly(payload), self.spec.window);
        self.ranks[usize::from(rank)].joined = Some(member);
        self.payload = payload;
        self.heard = now;
        if self.joined() == self.spec.fan_in {
            self.state = State::Complete(Running::anew(PsnWindow::unlimited()));
        }
    }
}

fn is_a_host(address: [u8; 4]) -> bool {
    let address = core::net::Ipv4Addr::from(address);
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}

#[cfg(test)]
mod tests;
