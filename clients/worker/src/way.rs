//! The state of the way to the appliance: who reports it closed, and how long packets may be.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use pascaline_wire::frame::{IPV4_LEN, IPV6_LEN, UDP_LEN};
use pascaline_wire::{DEFAULT_PORT, header};

/// For how long hosts on the way must report an appliance closed before that counts: it may have been started
/// at the same time as its workers.
pub const CLOSED: Duration = Duration::from_millis(1500);
/// For how long packets in flight may still come from the appliance after a host has begun to reject those
/// sent there. Routers report rarely: it may have been the only time.
const UNDER_WAY: Duration = Duration::from_millis(500);

/// A filter or a route of this host refuses a packet. Only this host can report it.
pub(crate) const HERE: Unreachable = Unreachable { obstacle: Obstacle::Filtered, by: None };

/// Why packets do not get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The host is there, and nothing listens on the port.
    NothingListens,
    /// Something on the way rejects the packets.
    Filtered,
    /// There is no route to the host, or it does not answer for its address.
    NoHost,
}

/// A report that packets do not get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    /// Why.
    pub obstacle: Obstacle,
    /// The sender of the ICMP message; none if it was this host's own kernel.
    pub by: Option<IpAddr>,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.obstacle, self.by) {
            (Obstacle::NothingListens, _) => {
                f.write_str("the host says that nothing listens on this UDP port (ICMP port unreachable)")
            }
            (Obstacle::Filtered, Some(by)) => write!(f, "{by} rejects the packets (ICMP): a firewall"),
            (Obstacle::Filtered, None) => {
                f.write_str("a firewall or a route of this host rejects the packets")
            }
            (Obstacle::NoHost, Some(by)) => write!(f, "{by} says that the host is unreachable (ICMP)"),
            (Obstacle::NoHost, None) => f.write_str(
                "no route leads there, or no host answers for the address (ARP, neighbour discovery)",
            ),
        }
    }
}

/// Reports on the appliance, and on the path to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    /// The latest report since the appliance was last heard, or shortly before, and from when on there are
    /// reports and nothing else.
    report: Option<(Unreachable, Duration)>,
    /// When that report came.
    reported: Option<Duration>,
    /// When the appliance was last heard.
    heard: Option<Duration>,
    /// Since when this host has refused all packets to the appliance, so none arrives, whatever comes from
    /// it.
    kept: Option<Duration>,
}

impl Way {
    /// Something has come from the appliance.
    pub(crate) fn note_received(&mut self, now: Duration) {
        if self.reported.is_none_or(|reported| now.saturating_sub(reported) > UNDER_WAY) {
            self.report = None;
        }
        self.report = self.report.map(|(report, _)| (report, now));
        self.heard = Some(now);
    }

    /// The appliance has answered a request: earlier reports no longer hold.
    pub(crate) const fn answered(&mut self) {
        (self.report, self.reported, self.kept) = (None, None, None);
    }

    /// This host has let some packets go, or `kept` all that were to go, by a filter or a route.
    pub(crate) fn left_here(&mut self, now: Duration, kept: bool) {
        self.kept = kept.then(|| self.kept.unwrap_or(now));
    }

    pub(crate) fn reported(&mut self, now: Duration, report: Unreachable) {
        let (before, first) = self.report.map_or((report, now), |(before, first)| (before, first));
        // The kernel may repeat, without details, what another host has reported.
        let vague = report.obstacle == Obstacle::NoHost && report.by.is_none();
        self.report = Some((if vague { before } else { report }, first));
        self.reported = Some(now);
    }

    /// When the latest report counts, if it is a refusal: an absent host may still be starting.
    pub(crate) fn closes(&self) -> Option<Duration> {
        let refused = |&(report, _): &(Unreachable, _)| report.obstacle != Obstacle::NoHost;
        let first = self.report.filter(refused).map(|(_, first)| first);
        let since = first.into_iter().chain(self.kept).min()?;
        Some(since.saturating_add(CLOSED))
    }

    /// Since when there have been only reports.
    pub(crate) fn since(&self) -> Option<Duration> {
        self.report.map(|(_, first)| first)
    }

    /// Whether packets have been refused for long enough.
    pub(crate) fn is_closed(&self, now: Duration) -> bool {
        self.closes().is_some_and(|closes| now >= closes)
    }

    /// The obstacle on this host, or otherwise the latest report since the appliance was last heard.
    pub(crate) fn report(&self) -> Option<Unreachable> {
        self.kept.map(|_| HERE).or(self.report.map(|(report, _)| report))
    }

    /// For how long nothing has come from the appliance, since `start` at most.
    pub(crate) fn silence(&self, now: Duration, start: Duration) -> Duration {
        now.saturating_sub(self.heard.map_or(start, |heard| heard.max(start)))
    }
}

/// What to check if an appliance does not answer.
pub(crate) struct Check {
    appliance: Option<SocketAddr>,
    report: Option<Unreachable>,
}

impl Check {
    pub(crate) const fn new(appliance: Option<SocketAddr>, report: Option<Unreachable>) -> Self {
        Self { appliance, report }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = &self.report {
            write!(f, "{report}. ")?;
        }
        let port = self.appliance.map_or(DEFAULT_PORT, |appliance| appliance.port());
        match self.report.map(|report| report.obstacle) {
            Some(Obstacle::NothingListens) => {
                write!(f, "Is this the appliance's address, is {port} its `udp_port`, and is it running?")
            }
            Some(Obstacle::Filtered) => write!(f, "Let UDP port {port} pass there, both ways"),
            Some(Obstacle::NoHost) => f.write_str(
                "Is this the appliance's address, is it running, and are its port and this host in one \
                 network, or is there a route?",
            ),
            None => write!(
                f,
                "Is this the appliance's address, is {port} its `udp_port`, is it running, does it take this \
                 worker's DSCP (its `dscp`), and does a firewall let UDP pass both ways?"
            ),
        }
    }
}

/// The longest payload, a multiple of 8 bytes, of a packet that fits into an MTU.
#[must_use]
pub const fn largest_payload(mtu: usize, ipv6: bool) -> usize {
    let headers = if ipv6 { IPV6_LEN } else { IPV4_LEN } + UDP_LEN + header::LEN;
    mtu.saturating_sub(headers) / 8 * 8
}

#[cfg(test)]
mod tests;
