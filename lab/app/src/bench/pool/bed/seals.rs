//! Seals on both sides of the pool, as at an appliance whose job is sealed.

use anyhow::{Context as _, ensure};
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk::Mbuf;
use pascaline_seal::{Cipher, JobKeys, LONGER, Protection, Secret};
use pascaline_wire::header;

use crate::bench::fixture::{HEADERS, JOB, Load};

/// Where the datagram begins in a frame. The lengths of IP and UDP are those of the plain one: what lies
/// behind them counts as padding until a frame has been opened.
const DATAGRAM: usize = HEADERS - header::LEN;
const SESSION: u64 = 1;

/// The keys of the job, and the results that have been sealed.
pub(super) struct Seals {
    ranks: Vec<Cipher>,
    results: Cipher,
    /// Packets that ranks have sealed.
    sent: u64,
    /// Results that have been sealed.
    sealed: u64,
    /// The PSN of the latest one.
    latest: Option<u32>,
    /// Datagrams of results; a pool has as many accumulators.
    datagrams: Vec<Vec<u8>>,
}

impl Seals {
    pub(super) fn new(protection: Protection, load: &Load) -> anyhow::Result<Self> {
        let secret =
            Secret::new(&[7; pascaline_seal::secret::LEAST]).context("a secret of the least length")?;
        let keys = JobKeys::new(&secret, JOB, protection);
        let datagram = vec![0; header::LEN + usize::from(load.shape.payload) + LONGER];
        Ok(Self {
            ranks: (0..load.shape.fan_in).map(|rank| keys.rank(rank).up).collect(),
            results: keys.results(1),
            sent: 0,
            sealed: 0,
            latest: None,
            datagrams: vec![datagram; load.residence.slots],
        })
    }

    /// Seals contributions, as the ranks do.
    pub(super) fn seal(&mut self, ready: &mut [Mbuf]) -> anyhow::Result<()> {
        for packet in ready {
            let len = packet.bytes().len();
            ensure!(packet.set_len(len + LONGER), "packet buffers are too small for seals");
            let datagram = packet.bytes_mut().get_mut(DATAGRAM..).context("a datagram")?;
            let cipher = cipher_of(&self.ranks, datagram).context("a rank of the job")?;
            self.sent += 1;
            let sealed = cipher.seal(SESSION, self.sent, datagram, len - DATAGRAM);
            ensure!(sealed == Some(len - DATAGRAM + LONGER), "a contribution could not be sealed");
        }
        Ok(())
    }

    /// Opens a contribution. One that cannot be opened stays sealed, which the pool drops.
    pub(super) fn open(&self, packet: &mut Mbuf) {
        let Some(datagram) = packet.bytes_mut().get_mut(DATAGRAM..) else { return };
        let opened = cipher_of(&self.ranks, datagram).and_then(|cipher| cipher.open(SESSION, datagram).ok());
        if let Some(opened) = opened {
            packet.truncate(DATAGRAM + opened.len);
        }
    }

    /// Seals each result once: its frames to all members differ in the rank only, which no seal covers. The
    /// payload that is sealed is one as long, as warm, and no longer in use.
    pub(super) fn seal_results(&mut self, frames: &[Mbuf]) {
        for frame in frames {
            let Some(head) = frame.bytes().get(DATAGRAM..HEADERS) else { continue };
            let psn = head.get(8..).and_then(|rest| rest.first_chunk()).copied().map(u32::from_be_bytes);
            if psn.is_none() || self.latest == psn {
                continue;
            }
            self.latest = psn;
            #[expect(clippy::cast_possible_truncation, reason = "a place, modulo their number")]
            let at = self.sealed as usize % self.datagrams.len();
            let datagram = &mut self.datagrams[at];
            datagram[..header::LEN].copy_from_slice(head);
            let len = datagram.len() - LONGER;
            if self.results.seal(0, self.sealed, datagram, len).is_some() {
                self.sealed += 1;
            }
        }
    }

    /// Results that have been sealed.
    pub(super) const fn results(&self) -> u64 {
        self.sealed
    }
}

/// The cipher of the rank that a datagram names.
fn cipher_of<'a>(ranks: &'a [Cipher], datagram: &[u8]) -> Option<&'a Cipher> {
    let rank = datagram.get(6..)?.first_chunk().copied().map(u16::from_be_bytes)?;
    ranks.get(usize::from(rank))
}
