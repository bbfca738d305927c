//! How often a source may ask: token buckets, as many as there are members and a fixed number for everybody
//! else.

use core::time::Duration;

use pascaline_wire::control::Action;
use pascaline_wire::frame::Address;

use super::job::{JobRecord, source};
use super::reply::ControlRequest;

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    per_second: u32,
    burst: u32,
}

/// A member's or a server's: several times what one sends that repeats its requests every 20 ms.
pub(super) const MEMBER: Rate = Rate { per_second: 200, burst: 64 };
/// An address's from which nobody has joined: enough for a host on which many ranks start at once.
pub(super) const STRANGER: Rate = Rate { per_second: 1000, burst: 512 };
/// The least time between two refusals that tell a source that it asks too often.
const TELL: Duration = Duration::from_millis(100);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RateDecision {
    /// It is decided on.
    Admitted,
    /// It is refused, and its sender told so.
    Refused,
    /// It is ignored: its sender has just been told.
    Ignored,
}

/// A token bucket. New ones are full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    /// When it will be full again.
    full: Duration,
    /// When its source was last told that it asks too often.
    told: Option<Duration>,
}

impl Bucket {
    pub(super) fn take(&mut self, now: Duration, rate: Rate) -> RateDecision {
        let token = Duration::from_secs(1) / rate.per_second;
        let full = self.full.max(now) + token;
        if full <= now + token * rate.burst {
            self.full = full;
            return RateDecision::Admitted;
        }
        if self.told.is_some_and(|told| now.saturating_sub(told) < TELL) {
            return RateDecision::Ignored;
        }
        self.told = Some(now);
        RateDecision::Refused
    }
}

/// The buckets of all addresses from which nobody has joined. There are as many whatever comes, so that
/// inventing addresses costs the appliance nothing; the price is that addresses may have to share one.
#[derive(Debug)]
pub(super) struct Strangers(Box<[Bucket; BUCKETS]>);

const BUCKETS: usize = 1024;

impl Default for Strangers {
    fn default() -> Self {
        Self(Box::new([Bucket::default(); BUCKETS]))
    }
}

impl Strangers {
    pub(super) fn take(&mut self, now: Duration, address: Address) -> RateDecision {
        self.0.get_mut(place(address)).map_or(RateDecision::Ignored, |bucket| bucket.take(now, STRANGER))
    }
}

/// Where the bucket of an address is: the high bits of a multiplicative hash of both halves.
#[expect(clippy::cast_possible_truncation, reason = "ten bits are left")]
fn place(address: Address) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (high, low) =
        ((u128::from_be_bytes(address.octets()) >> 64) as u64, u128::from_be_bytes(address.octets()) as u64);
    let mixed = (high.wrapping_mul(ODD).rotate_left(32) ^ low).wrapping_mul(ODD);
    (mixed >> (64 - BUCKETS.ilog2())) as usize
}

impl JobRecord {
    /// The bucket of a source that is known to this job, by its session and the address and port that it has
    /// joined or registered from: whoever only says that it is there must not use up what a member may ask.
    pub(super) fn bucket(&mut self, request: &ControlRequest) -> Option<&mut Bucket> {
        let known = (request.control.session, source(&request.from));
        if request.control.action == Action::Serve {
            let server = self.server.as_mut();
            let server = server.filter(|server| (server.session, source(&server.endpoint)) == known);
            return server.map(|server| &mut server.bucket);
        }
        let latest = self.ranks.get_mut(usize::from(request.header.rank))?.latest.as_mut();
        latest.filter(|latest| (latest.session, latest.source) == known).map(|latest| &mut latest.bucket)
    }
}

#[cfg(test)]
mod tests;
