//! What only this appliance can have said: cookies, and the PSNs that generations begin with.
//!
//! A cookie proves that its bearer receives what is sent to the address that it claims: the appliance keeps
//! nothing for it, and makes it anew from what a Join says about itself. Both numbers come from SipHash-2-4
//! (Aumasson and Bernstein, 2012) under a key of this start of the appliance.

use core::fmt;
use core::hash::Hasher;

use pascaline_wire::control::SERVER_RANK;
use pascaline_wire::frame::Address;
use siphasher::sip::SipHasher24;

use super::job::JobRecord;
use super::reply::ControlRequest;

/// A key that nobody else knows: random, and another with each start of the appliance.
#[derive(Clone, Copy)]
pub struct Secret(Option<[u8; 16]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// None: every cookie is 1, and every generation begins with PSN 0. For tests and benches.
    pub const NONE: Self = Self(None);

    /// From random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(Some(bytes))
    }

    /// The cookie for the sender of a Join or Serve, as long as the job is in this generation and `other` the
    /// latest session of its rank, if that is not the sender's; else 0. So a Join that has been long on its
    /// way does not take a rank from whoever has got it since. Never 0.
    pub(super) fn cookie(&self, request: &ControlRequest, epoch: u16, other: u64) -> u64 {
        let ControlRequest { from, header, control, .. } = request;
        let mut hasher = self.hasher(b'c');
        hasher.write(&from.address.octets());
        hasher.write_u16(from.udp_port);
        hasher.write_u16(header.job);
        hasher.write_u16(header.rank);
        hasher.write_u64(control.session);
        hasher.write_u16(epoch);
        hasher.write_u64(other);
        self.0.map_or(1, |_| hasher.finish().max(1))
    }

    /// The first PSN of a generation that is not resumed. `generations` counts those of the job (RFC 6528
    /// does the like for TCP).
    #[expect(clippy::cast_possible_truncation, reason = "32 bits are wanted")]
    pub(super) fn base(&self, job: u16, generations: u64) -> u32 {
        let mut hasher = self.hasher(b'b');
        hasher.write_u16(job);
        hasher.write_u64(generations);
        self.0.map_or(0, |_| hasher.finish() as u32)
    }

    /// The salt of a job's key for results: the same for all its generations in this life of the appliance.
    /// Never 0.
    pub(super) fn salt(&self, job: u16) -> u64 {
        let mut hasher = self.hasher(b'k');
        hasher.write_u16(job);
        hasher.finish().max(1)
    }

    /// What the answer with this number is sealed with.
    pub(super) fn answer(&self, number: u64) -> u64 {
        let mut hasher = self.hasher(b'n');
        hasher.write_u64(number);
        hasher.finish()
    }

    /// A session of an appliance at its parent: none of them comes again, in whatever life.
    pub(super) fn session(&self, job: u16, generation: u64, number: u64) -> u64 {
        let mut hasher = self.hasher(b's');
        hasher.write_u16(job);
        hasher.write_u64(generation);
        hasher.write_u64(number);
        hasher.finish()
    }

    /// The session in a question to a member, by which its host's refusal of it is known: that of no worker.
    pub(super) fn ask(&self, (job, epoch, rank): (u16, u16, u16), to: (Address, u16), since: u64) -> u64 {
        let mut hasher = self.hasher(b'a');
        hasher.write_u16(job);
        hasher.write_u16(epoch);
        hasher.write_u16(rank);
        hasher.write(&to.0.octets());
        hasher.write_u16(to.1);
        hasher.write_u64(since);
        hasher.finish()
    }

    /// Numbers of different uses tell nothing of one another.
    fn hasher(&self, of: u8) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_key(&self.0.unwrap_or_default());
        hasher.write_u8(of);
        hasher
    }
}

impl JobRecord {
    /// The cookie for the sender of a request, in the present generation.
    pub(super) fn cookie(&self, request: &ControlRequest) -> u64 {
        let latest = match request.header.rank {
            SERVER_RANK => self.server.map(|known| known.session),
            rank => self.ranks.get(usize::from(rank)).and_then(|rank| rank.latest).map(|it| it.session),
        };
        let other = latest.filter(|&session| session != request.control.session);
        self.secret.cookie(request, self.epoch, other.unwrap_or(0))
    }
}
