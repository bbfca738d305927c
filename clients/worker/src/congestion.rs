//! Congestion control: how many packets are worth having in flight.
//!
//! Results are implicit acknowledgements, one for each contribution (PANAMA, section 4.2.2). Each is a
//! [`Sample`] of the path: how long it took, and whether a packet on the way to it was marked. Loss alone
//! says little, since networks lose packets for other reasons and other ranks' losses look like this one's.
//!
//! Four controls; the job's configuration names one, and a worker may choose another
//! ([`Config::congestion`](crate::Config::congestion)):
//!
//! - [`fixed`](CongestionControl::Fixed): the configured number of packets, or the spread, whatever happens.
//! - [`panama`]: 2 at first; twice as many after each window up to ssthresh, then one more; × (1 − α / 2)
//!   after a window with marks; at most `wnd_cap`.
//! - [`dsa`]: 60 KB at first; one packet more after each window; half as many for marks, once each window.
//! - [`delay`]: 64 at first; doubles, later one more with each round; half as many when results wait in
//!   queues for long, for marks, and if many packets are lost.
//!
//! Only `panama` obeys `wnd_cap`: with the others, a packet without a slot goes to the parameter server or is
//! sent again. Under each of them results that take [too long](crate::recovery::CONGESTED) halve what may be
//! in flight for a while. A window grows only while it limits: while there is more to send.

use core::time::Duration;

use pascaline_wire::CongestionControl;

pub mod delay;
pub mod dsa;
pub mod panama;

use delay::Delay;
use dsa::Dsa;
use panama::Panama;

/// A result's information about the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// A packet on the way to it, or the result itself, was marked: it has met congestion.
    pub marked: bool,
    /// How many packets may be in flight, given the memory on the way.
    pub cap: u16,
}

impl Default for Signal {
    /// No information.
    fn default() -> Self {
        Self { marked: false, cap: u16::MAX }
    }
}

/// A result as the controls see it.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// When it came.
    pub now: Duration,
    /// When its contribution was last sent.
    pub sent_at: Duration,
    /// True if the contribution was sent more than once: the time that it took says nothing.
    pub ambiguous: bool,
    /// Its information about the path.
    pub signal: Signal,
    /// True if the window limits: there is more to send.
    pub limited: bool,
}

/// The control of one job's path, for as long as its generation: what is known of a path outlives operations.
#[derive(Debug, Clone)]
pub struct Congestion {
    state: State,
    most: u32,
}

#[derive(Debug, Clone)]
enum State {
    Fixed,
    Panama(Panama),
    Dsa(Dsa),
    Delay(Delay),
}

impl Congestion {
    /// A control that allows at most `most` packets, each of this many bytes.
    #[must_use]
    pub fn new(control: CongestionControl, most: u32, packet: u32) -> Self {
        let state = match control {
            CongestionControl::Fixed => State::Fixed,
            CongestionControl::Panama => State::Panama(Panama::default()),
            CongestionControl::Dsa => State::Dsa(Dsa::new(packet)),
            CongestionControl::Delay => State::Delay(Delay::default()),
        };
        Self { state, most: most.max(1) }
    }

    /// An operation begins: nothing is in flight.
    pub fn begin(&mut self) {
        match &mut self.state {
            State::Delay(delay) => delay.begin(),
            State::Panama(panama) => panama.end_window(false, f64::from(self.most)),
            State::Fixed | State::Dsa(_) => {}
        }
    }

    /// Notes a result.
    pub fn on_result(&mut self, sample: &Sample) {
        let most = f64::from(self.most);
        match &mut self.state {
            State::Fixed => {}
            State::Panama(panama) => panama.on_result(sample, most),
            State::Dsa(dsa) => dsa.on_result(sample, most),
            State::Delay(delay) => delay.on_result(sample, most),
        }
    }

    /// Notes packets that count as lost.
    pub const fn on_loss(&mut self, packets: u32) {
        if let State::Delay(delay) = &mut self.state {
            delay.on_loss(packets);
        }
    }

    /// How many packets may be in flight: at least 1.
    #[must_use]
    pub fn window(&self) -> u32 {
        let window = match &self.state {
            State::Fixed => return self.most,
            State::Panama(panama) => panama.window(),
            State::Dsa(dsa) => dsa.window(),
            State::Delay(delay) => delay.window(),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to `most`")]
        let whole = window as u32;
        whole.clamp(1, self.most)
    }
}

#[cfg(test)]
mod tests;
