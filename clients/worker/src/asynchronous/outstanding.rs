//! Updates in flight.

use std::collections::VecDeque;

use core::time::Duration;

use pascaline_wire::trailer;

use crate::rtt::Rtt;

/// Before the first acknowledgement the length of the queue is unknown.
const INITIAL: Duration = Duration::from_secs(1);
/// An update that has waited for longer is gone, or too old to be worth waiting for.
const CEILING: Duration = Duration::from_secs(10);
/// Updates remembered beyond their end: an acknowledgement that comes late still measures the round trip.
const REMEMBERED: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Sent {
    psn: u32,
    at: Duration,
    generated_ns: u64,
    /// Neither acknowledged nor given up.
    open: bool,
}

/// The subject of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acknowledged {
    /// The number of acknowledged updates of this worker that were in flight.
    Open(u32),
    /// No update that was still waiting.
    Nothing,
}

/// Updates without an answer so far, and how long answers take.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// In the order of sending.
    sent: VecDeque<Sent>,
    open: u32,
    rtt: Rtt,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Self { sent: VecDeque::with_capacity(REMEMBERED), open: 0, rtt: Rtt::within(INITIAL, CEILING) }
    }

    pub(super) const fn open(&self) -> u32 {
        self.open
    }

    pub(super) const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// An update has been sent. The memory is bounded: returns the number of open ones given up for it, 0 or
    /// 1.
    pub(super) fn on_sent(&mut self, now: Duration, psn: u32, generated_ns: u64) -> u32 {
        let oldest = if self.sent.len() == REMEMBERED { self.sent.pop_front() } else { None };
        let given_up = u32::from(oldest.is_some_and(|sent| sent.open));
        self.open = self.open - given_up + 1;
        self.sent.push_back(Sent { psn, at: now, generated_ns, open: true });
        given_up
    }

    /// True if an update with this number has been sent lately.
    pub(super) fn has(&self, psn: u32) -> bool {
        self.sent.iter().any(|sent| sent.psn == psn)
    }

    /// An acknowledgement. If it names this worker (`own`: a PSN of its own), that update and all before it
    /// have arrived, were replaced by it or are inside of it. One of another worker of the cluster ends the
    /// wait as well if it was generated no earlier: an update that was combined with others is acknowledged
    /// once, in the name of one of them.
    pub(super) fn on_ack(
        &mut self,
        now: Duration,
        own: Option<u32>,
        update: &trailer::Update,
    ) -> Acknowledged {
        let mut closed = 0;
        for sent in &mut self.sent {
            // PSNs are compared as distances: they wrap.
            let covered = own.is_some_and(|psn| psn.wrapping_sub(sent.psn) < 1 << 31);
            if sent.open && (covered || sent.generated_ns <= update.generated_ns) {
                sent.open = false;
                closed += 1;
            }
        }
        self.open -= closed;
        if let Some(sent) = own.and_then(|psn| self.sent.iter().find(|sent| sent.psn == psn)) {
            // No update is ever sent twice, so that even a late acknowledgement is unambiguous.
            self.rtt.on_result(now.saturating_sub(sent.at), false);
            let psn = sent.psn;
            self.sent.retain(|sent| psn.wrapping_sub(sent.psn) >= 1 << 31 || psn == sent.psn && sent.open);
        }
        if closed > 0 { Acknowledged::Open(closed) } else { Acknowledged::Nothing }
    }

    /// An update was refused on its way; this does not concern the others. True if it was open.
    pub(super) fn on_refused(&mut self, psn: u32) -> bool {
        let sent = self.sent.iter_mut().find(|sent| sent.open && sent.psn == psn);
        let found = sent.map(|sent| sent.open = false).is_some();
        self.open -= u32::from(found);
        found
    }

    /// When the next one will be given up.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let oldest = self.sent.iter().find(|sent| sent.open)?;
        Some(oldest.at.saturating_add(self.rtt.timeout()))
    }

    /// Gives up updates that have waited for too long. Returns their number.
    pub(super) fn on_timeout(&mut self, now: Duration) -> u32 {
        let timeout = self.rtt.timeout();
        let mut given_up = 0;
        for sent in self.sent.iter_mut().filter(|sent| sent.open && now >= sent.at.saturating_add(timeout)) {
            sent.open = false;
            given_up += 1;
        }
        self.open -= given_up;
        given_up
    }

    /// Forgets all updates: none can be acknowledged any more. Returns how many were open.
    pub(super) fn forget(&mut self) -> u32 {
        self.sent.clear();
        core::mem::take(&mut self.open)
    }
}
