//! How often a source may ask: a bucket for each member and server, and a fixed number of them for all other
//! addresses.

use core::time::Duration;

use pascaline_wire::control::Action;
use pascaline_wire::frame::Address;

use super::job::{JobRecord, source};
use super::reply::ControlRequest;
use crate::meter::{Bucket, HOST, MEMBER, Rate, STRANGER, TOO_MANY};

/// What is counted of a source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asked {
    requests: Bucket,
    refusals: Bucket,
}

impl Asked {
    /// Whether a request is decided on; if not, it is refused. `None` if it is not answered, since its sender
    /// has just had such a refusal.
    pub(super) fn may(&mut self, now: Duration, rate: Rate) -> Option<bool> {
        let now = nanos(now);
        let may = self.requests.take(now, rate);
        (may || self.refusals.take(now, TOO_MANY)).then_some(may)
    }
}

/// A time as buckets take it.
fn nanos(now: Duration) -> u64 {
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Addresses that no member has joined from, however many there are: so inventing addresses costs the
/// appliance nothing; the price is that addresses may have to share a place.
const PLACES: usize = 1024;

/// The place of an address: the high bits of a multiplicative hash of both halves.
#[expect(clippy::cast_possible_truncation, reason = "ten bits are left")]
fn place(address: Address) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (high, low) =
        ((u128::from_be_bytes(address.octets()) >> 64) as u64, u128::from_be_bytes(address.octets()) as u64);
    let mixed = (high.wrapping_mul(ODD).rotate_left(32) ^ low).wrapping_mul(ODD);
    (mixed >> (64 - PLACES.ilog2())) as usize
}

/// The requests of addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    /// What all members at an address have asked: an answer costs more than a request.
    members: Box<[Bucket; PLACES]>,
    /// What strangers have, at one from which no member has joined.
    strangers: Box<[Asked; PLACES]>,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            members: Box::new([Bucket::default(); PLACES]),
            strangers: Box::new([Asked::default(); PLACES]),
        }
    }
}

impl Addresses {
    /// As [`Asked::may`], of a request from this address, of a source that is `known` or of another one.
    pub(super) fn may(&mut self, now: Duration, address: Address, known: Option<&mut Asked>) -> Option<bool> {
        let place = place(address);
        match known {
            // Only what others cannot forge uses up what a host may ask.
            Some(asked) => {
                let may = asked.may(now, MEMBER);
                may.filter(|&may| !may || self.members[place].take(nanos(now), HOST))
            }
            None => self.strangers[place].may(now, STRANGER),
        }
    }
}

impl JobRecord {
    /// What is counted of a source that is known to this job, by its session and the address and port that it
    /// has joined or registered from: forged requests must not use up what a member may ask.
    pub(super) fn asked(&mut self, request: &ControlRequest) -> Option<&mut Asked> {
        if request.control.action == Action::Serve {
            let known = (request.control.session, source(&request.from));
            let server = self.server.as_mut();
            let server = server.filter(|server| (server.session, source(&server.endpoint)) == known);
            return server.map(|server| &mut server.asked);
        }
        let latest = self.ranks.get_mut(usize::from(request.header.rank))?.latest.as_mut();
        latest.filter(|latest| latest.sent(request)).map(|latest| &mut latest.asked)
    }
}

#[cfg(test)]
mod tests;
