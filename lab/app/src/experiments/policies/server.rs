//! The parameter server of one job: the real state machine on a separate host.

use core::time::Duration;

use arrayvec::ArrayVec;
use pascaline_ps::{Capacity, Config, JobParams, Server, SetJobError};
use pascaline_sim::wheel::nanos;

use super::line::NEVER;
use super::outcome::{Datagram, EPOCH};
use super::setting::Setting;

/// The server, with a count that its own do not have.
#[derive(Debug)]
pub(super) struct Host {
    server: Server,
    /// Complete aggregates that it only passed on.
    whole: u64,
}

/// Converts virtual time to the server's.
pub(super) const fn time(now: u64) -> Duration {
    Duration::from_nanos(now / 1000)
}

/// Converts the server's time to virtual time.
pub(super) fn clock(time: Duration) -> u64 {
    nanos(time).saturating_mul(1000)
}

impl Host {
    pub(super) fn new(setting: &Setting, job: u16) -> Result<Self, SetJobError> {
        let config = Config {
            // The only timeout that DSA gives (section VI). The default, meant for any network, is longer
            // than an iteration.
            initial: Config::default().floor,
            // As in an appliance: a result for each PSN that a rank may lack.
            cached: u32::from(setting.spread()),
            // It started long ago, and nothing in this network comes late.
            settle: Duration::ZERO,
            ..Config::default()
        };
        let mut server = Server::new(config);
        // One for each PSN that can be open.
        let entries = 2 * u32::from(setting.spread());
        let params = JobParams::new(setting.ranks, EPOCH);
        let capacity = Capacity { entries, ..params.capacity };
        server.set_job(job, JobParams { capacity, payload_max: 64, ..params })?;
        Ok(Self { server, whole: 0 })
    }

    /// How long it asks for the missing part of a PSN.
    pub(super) fn patience() -> Duration {
        Config::default().age_limit
    }

    /// A packet arrives. `whole` if it is a complete aggregate, which becomes the result.
    pub(super) fn receive(&mut self, now: u64, datagram: &Datagram, whole: bool) {
        let now = time(now);
        let finished = self.server.counters().finished;
        self.server.handle(now, &datagram.header, &datagram.body);
        if whole {
            self.whole += self.server.counters().finished - finished;
        }
    }

    /// Time passes.
    pub(super) fn wake(&mut self, now: u64) {
        self.server.handle_timeout(time(now));
    }

    /// The next packet that it sends.
    pub(super) fn send(&mut self) -> Option<Datagram> {
        let action = self.server.poll_action()?;
        let mut body: ArrayVec<u8, 64> = action.payload.iter().copied().take(64).collect();
        if let Some(trailer) = action.trailer() {
            let mut bytes = [0; 64];
            let len = trailer.emit(&mut bytes).unwrap_or(0);
            body.extend(bytes.iter().copied().take(len.min(body.remaining_capacity())));
        }
        Some(Datagram { header: action.header, body })
    }

    /// When its timer is due.
    pub(super) fn next(&self, now: u64) -> u64 {
        self.server.poll_timeout().map_or(NEVER, |at| clock(at).max(now))
    }

    /// PSNs that it completed, without those that arrived complete.
    pub(super) fn completions(&self) -> u64 {
        self.server.counters().finished - self.whole
    }
}
