//! When a packet counts as lost.
//!
//! A missing result is no sign of loss in itself: while one rank is late, no rank gets results. So there are
//! four rules, the first three from the strongest evidence to the weakest:
//!
//! 1. *Early*, after RACK (RFC 8985): the result of a packet sent later than this one by more than the
//!    reordering window has come; or of one sent later at all, and a round trip and the reordering window
//!    have passed, which matters where nothing more may be sent. Resent at once, but only once per PSN:
//!    should the loss be another rank's, resending more would not help.
//! 2. *Overdue*: something sent later has its result, and the timeout has passed since this was sent.
//! 3. *Stalled*: no result at all for a timeout, or for two round trips at the end of an operation, where
//!    nothing follows that would show a loss (RFC 8985, section 7). The oldest outstanding packet alone is
//!    resent, as a probe, and the timeout doubles. Resending everything would add load just when a rank, or
//!    the network, is slow.
//!
//! The result of a resent packet may answer its first sending. As evidence it would make a rank resend its
//! whole window whenever a late rank continues, so rules 1 and 2 ignore it. But after a true outage there is
//! no other evidence, since the first result is a probe's. Hence the last rule:
//!
//! 4. *In doubt*: something resent later than this was sent has its result, and for a timeout since then no
//!    result has come of anything that was sent only once.
//!
//! **Overload.** Whatever [congestion control](crate::congestion) allows: results that take [`CONGESTED`]
//! wait in queues, or for a late rank, and more packets in flight gain nothing: beyond
//! [the timeout's ceiling](crate::rtt::CEILING) everything would be resent. So each such round trip halves
//! what may be in flight, and each quicker result allows one packet more.

use core::time::Duration;

use crate::congestion::{Congestion, Sample};
use crate::rtt::Rtt;
use crate::window::{Completion, Window};

/// A round trip that shows congestion: a hundred times a rack's, and below the timeout's ceiling.
pub const CONGESTED: Duration = Duration::from_millis(20);

/// The state of rule 4.
#[derive(Debug, Clone, Copy)]
struct Ambiguous {
    /// Packets last sent before this are in doubt ...
    sent_before: Duration,
    /// ... and lost, if nothing unambiguous comes before this.
    due: Duration,
}

/// The evidence about the running operation, and the timeout, which outlives operations.
#[derive(Debug, Default)]
pub struct Recovery {
    rtt: Rtt,
    /// The latest sending of any packet that was sent only once and has its result.
    newest: Option<Duration>,
    ambiguous: Option<Ambiguous>,
    /// When the last new result came, or the last probe was due, or the operation sent its first packet.
    quiet_since: Option<Duration>,
    /// There has been a probe since the last result.
    probed: bool,
    /// Packets sent before this are no evidence against the packets allowed since.
    narrowed: Option<Duration>,
    /// How many packets may be in flight; none in a window of a fixed size.
    congestion: Option<Congestion>,
}

impl Recovery {
    /// Also sets how many packets the window may have in flight.
    #[must_use]
    pub fn controlled(congestion: Congestion, window: &mut Window) -> Self {
        window.aim(congestion.window());
        Self { congestion: Some(congestion), ..Self::default() }
    }

    /// Forgets the evidence about the operation before.
    pub fn begin(&mut self) {
        if let Some(congestion) = &mut self.congestion {
            congestion.begin();
        }
        self.newest = None;
        self.ambiguous = None;
        self.quiet_since = None;
        self.probed = false;
    }

    /// Forgets the evidence about the generation before, and the backoff that its end has caused.
    pub fn begin_generation(&mut self) {
        self.begin();
        self.rtt.end_backoff();
    }

    /// Notes that a packet is being sent.
    pub fn on_sent(&mut self, now: Duration) {
        self.quiet_since.get_or_insert(now);
    }

    /// Notes a packet's result, and gives up packets that it proves lost.
    pub fn on_result(&mut self, now: Duration, completion: &Completion, window: &mut Window) {
        let Completion { sent_at, ambiguous, fetched, signal } = *completion;
        self.rtt.on_result(now.saturating_sub(sent_at), ambiguous);
        self.quiet_since = Some(now);
        self.probed = false;
        if let Some(congestion) = &mut self.congestion {
            let limited = window.unsent() > 0;
            congestion.on_result(&Sample { now, sent_at, ambiguous, signal, limited });
            window.aim(congestion.window());
        }
        if fetched {
            // A rank that was ahead when the last generation ended had it, and has more.
            window.lose_early(now);
        }
        let due = now + self.rtt.timeout();
        if ambiguous {
            let doubt = self.ambiguous.get_or_insert(Ambiguous { sent_before: sent_at, due });
            doubt.sent_before = doubt.sent_before.max(sent_at);
        } else {
            if let Some(doubt) = &mut self.ambiguous {
                doubt.due = due;
            }
            self.judge(now, sent_at, window);
            self.newest = self.newest.max(Some(sent_at));
            self.lost(window.lose_early(sent_at.saturating_sub(self.rtt.reordering())));
        }
    }

    fn lost(&mut self, packets: u32) {
        if let Some(congestion) = &mut self.congestion {
            congestion.on_loss(packets);
        }
    }

    /// Adapts how many packets may be in flight to how long a result took, or has been missing.
    fn judge(&mut self, now: Duration, sent_at: Duration, window: &mut Window) {
        if now.saturating_sub(sent_at) < CONGESTED {
            window.widen();
        } else if Some(sent_at) >= self.narrowed {
            window.narrow();
            self.narrowed = Some(now);
        }
    }

    /// When to call [`on_timeout`](Self::on_timeout) next.
    #[must_use]
    pub fn poll_timeout(&self, window: &Window) -> Option<Duration> {
        let timeout = self.rtt.timeout();
        let doubt = self.ambiguous.map(|doubt| doubt.due);
        let overdue =
            window.oldest_sending().filter(|&sent| Some(sent) < self.newest).map(|sent| sent + timeout);
        let early = window
            .oldest_unhurried()
            .filter(|&sent| Some(sent) < self.newest)
            .zip(self.rtt.early())
            .map(|(sent, early)| sent + early);
        let stalled = self.quiet_since.map(|since| since + self.patience(window));
        [doubt, overdue, early, stalled].into_iter().flatten().min()
    }

    /// Gives up packets that the passing of time proves lost.
    pub fn on_timeout(&mut self, now: Duration, window: &mut Window) {
        let timeout = self.rtt.timeout();
        let doubt = self.ambiguous.take_if(|doubt| doubt.due <= now).map(|doubt| doubt.sent_before);
        let newest = self.newest;
        if let (Some(newest), Some(early)) = (newest, self.rtt.early()) {
            let passed = now.saturating_sub(early).saturating_add(Duration::from_nanos(1));
            self.lost(window.lose_early(newest.min(passed)));
        }
        let is_lost = |sent| Some(sent) < doubt || Some(sent) < newest && sent + timeout <= now;
        while let Some(sent) = window.oldest_sending().filter(|&sent| is_lost(sent)) {
            if now.saturating_sub(sent) >= CONGESTED {
                self.judge(now, sent, window);
            }
            window.lose_oldest();
            self.lost(1);
        }
        let patience = self.patience(window);
        if self.quiet_since.is_some_and(|since| since + patience <= now) {
            window.lose(window.una());
            if patience == timeout {
                self.rtt.back_off();
            }
            self.probed = true;
            self.quiet_since = Some(now);
        }
    }

    /// How long there may be no result; less at the end of an operation in which all ranks take part.
    fn patience(&self, window: &Window) -> Duration {
        let (timeout, ending) = (self.rtt.timeout(), window.unsent() == 0 && !window.has_lost());
        match self.rtt.smoothed().zip(self.rtt.early()) {
            Some((trip, early)) if ending && !self.probed && self.newest.is_some() => {
                timeout.min(trip + early)
            }
            _ => timeout,
        }
    }

    /// The estimator of the timeout.
    #[must_use]
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }
}
