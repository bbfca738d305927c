//! Asking for missing ranks: a worker whose operation or Join is stalled asks the appliance, so that its
//! error can name ranks and their states (protocol, section 9, Query).

use core::fmt;
use core::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::trailer::{RankReport, RankReports, RankState};
use pascaline_wire::{Header, Trailer};

use crate::identity::Identity;
use crate::probe::{LENGTHS, Passage, Probe, Probes};

/// How long an operation is stalled before a worker asks; earlier where its deadline is near.
pub const STALLED: Duration = Duration::from_secs(1);
/// How often it asks from then on. Ranks that have stopped at the same moment do not stay in step.
const EVERY: Duration = Duration::from_millis(250);
const APART: u16 = 64;
/// After this many answers without a rank, the stall is reported anyway.
const WITHOUT_RANKS: u8 = 4;

/// The appliance's answer about ranks missing at a PSN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The PSN that was asked about.
    pub psn: u32,
    /// Ranks that have its result already, as far as is known: above 0 if it has been sent.
    pub ahead: u32,
    /// The reports on missing ranks, of seven at the most.
    pub ranks: RankReports,
}

impl Missing {
    /// True if the rank is among them.
    #[must_use]
    pub fn names(&self, rank: u16) -> bool {
        self.ranks.as_slice().iter().any(|report| report.rank == rank && report.state != RankState::Here)
    }

    /// True if a rank that sends nothing any more is among them.
    #[must_use]
    pub fn names_gone(&self) -> bool {
        use RankState::{Left, Lost, NeverJoined, Silent};
        let gone = |report: &RankReport| matches!(report.state, NeverJoined | Left | Lost | Silent);
        self.ranks.as_slice().iter().any(gone)
    }

    /// True if the contributions of that rank do not arrive.
    #[must_use]
    pub fn blocks(&self, rank: u16) -> bool {
        self.ranks.as_slice().iter().any(|report| report.rank == rank && report.state == RankState::Blocked)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ranks.as_slice().is_empty() {
            return f.write_str("no rank is missing");
        }
        write!(f, "{}", self.ranks)
    }
}

/// When to ask, and the latest answer.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    /// The position of its last progress.
    reached: u32,
    /// When to ask.
    next: Duration,
    patience: Duration,
    answer: Option<Box<Missing>>,
    /// Answers since its last progress.
    answers: u8,
    /// Whether packets of full size get through, and how many probes to send now.
    probes: Probes,
    due: usize,
    /// Whether the stall has been reported to the user.
    notified: bool,
}

impl Inquiry {
    /// Of something that begins and may take until `deadline` from now.
    pub(crate) fn new(now: Duration, deadline: Duration) -> Self {
        Self::since(now, 0, STALLED.min(deadline / 3))
    }

    /// Since progress that has `reached` this position.
    fn since(now: Duration, reached: u32, patience: Duration) -> Self {
        Self { reached, patience, next: now.saturating_add(patience), ..Self::default() }
    }

    /// A probe to send beside the question, of at most this payload length.
    pub(crate) fn probe(&mut self, full: u16, una: u32) -> Option<Probe> {
        self.due = self.due.checked_sub(1)?;
        if self.probes.is_idle() {
            self.probes.begin(full, una);
        }
        self.probes.next()
    }

    /// Whether a refusal of this PSN is the answer to a probe.
    pub(crate) fn probed(&mut self, psn: u32) -> bool {
        self.probes.answers(psn)
    }

    /// The length that gets through to the appliance, if full packets do not.
    pub(crate) fn passage(&self) -> Option<Passage> {
        self.probes.passage()
    }

    /// True once for each stall, as soon as there is something to report.
    pub(crate) fn take_stall_notice(&mut self, silent: bool) -> bool {
        let names = |missing: &Missing| missing.ahead > 0 || !missing.ranks.as_slice().is_empty();
        let known = self.answer.as_deref().is_some_and(names) || self.answers >= WITHOUT_RANKS;
        let news = !self.notified && (known || silent);
        self.notified |= news;
        news
    }

    /// Whether this rank is to ask now, having come so far.
    pub(crate) fn is_due(&mut self, now: Duration, reached: u32, rank: u16) -> bool {
        if now < self.next {
            return false;
        }
        if reached != self.reached {
            *self = Self::since(now, reached, self.patience);
            return false;
        }
        let apart = Duration::from_millis((rank % APART).into());
        self.next = now.saturating_add(EVERY + apart);
        self.due = if self.answer.as_ref().is_some_and(|missing| missing.blocks(rank)) { LENGTHS } else { 0 };
        true
    }

    /// When to ask next.
    pub(crate) const fn poll_timeout(&self) -> Duration {
        self.next
    }

    /// The answer to a Query.
    pub(crate) fn answered(&mut self, ack: &Control, trailer: Option<&Trailer>) {
        if matches!(ack.status, Status::Ok | Status::RankLeft) {
            let ranks = trailer.and_then(|trailer| trailer.ranks).unwrap_or(RankReports::EMPTY);
            self.answer = Some(Box::new(Missing { psn: ack.psn, ahead: ack.got, ranks }));
            self.answers = self.answers.saturating_add(1);
        }
    }

    /// The latest answer since its last progress.
    pub(crate) fn latest(&self) -> Option<Box<Missing>> {
        self.answer.clone()
    }
}

/// A Query about a PSN.
pub(crate) fn query(
    identity: &Identity,
    epoch: u16,
    number: u32,
    session: u64,
    psn: u32,
) -> (Header, Control) {
    let body = Control { number, psn, ..Control::request(Action::Query, session) };
    (identity.about(epoch), body)
}
