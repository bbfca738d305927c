//! The link of one port of a pair in line, told at the other: who is behind it shall know that the way is
//! interrupted, as over a plain cable.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pascaline_dpdk::port::Started;
use pascaline_dpdk::{Port, PortStats};
use tracing::{info, warn};

use crate::config::Config;

/// How often links are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Two ports in line.
struct Pair {
    ends: [(String, PortStats); 2],
    /// The end that is down because the other one is.
    held: Option<usize>,
}

/// All pairs whose links go together; none unless the configuration says so.
pub(super) struct Links {
    pairs: Vec<Pair>,
    looked: Instant,
}

impl Links {
    pub(super) fn new(config: &Config, ports: &[(String, Port<Started>)]) -> Self {
        let port = |at: usize| ports.get(at).map(|(name, port)| (name.clone(), port.stats()));
        let pairs = config.ports.iter().enumerate().filter_map(|(at, written)| {
            let other = written.peer.filter(|&peer| config.in_line.pass_link_state && at < peer)?;
            Some(Pair { ends: [port(at)?, port(other)?], held: None })
        });
        Self { pairs: pairs.collect(), looked: Instant::now() }
    }

    /// Looks at the links, if it is time, and takes or gives back those of the other ends.
    pub(super) fn look(&mut self) {
        if self.pairs.is_empty() || self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        self.pairs.iter_mut().for_each(Pair::look);
    }
}

impl Pair {
    fn look(&mut self) {
        let [Some(left), Some(right)] = [0, 1].map(|end| self.is_up(end)) else { return };
        let wanted = held(self.held, [left, right]);
        if wanted == self.held {
            return;
        }
        if let Some(end) = self.held {
            self.set(end, true);
        }
        if let Some(end) = wanted {
            self.set(end, false);
        }
        self.held = wanted;
    }

    fn is_up(&self, end: usize) -> Option<bool> {
        self.ends.get(end)?.1.link().ok().map(|link| link.up)
    }

    fn set(&self, end: usize, up: bool) {
        let Some((name, port)) = self.ends.get(end) else { return };
        match port.set_link(up) {
            Ok(()) => info!(port = name, up, "the link follows that of its peer"),
            Err(errno) => warn!(
                port = name, up, %errno,
                "the link cannot follow that of its peer: the driver, or a missing right (CAP_NET_ADMIN)"
            ),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(end) = self.held {
            self.set(end, true);
        }
    }
}

/// Which end is to be held down, where this one has been, and the links are up or not. What is held says
/// nothing of its own link: it is let go as soon as the other one is back, and looked at then.
const fn held(before: Option<usize>, up: [bool; 2]) -> Option<usize> {
    match (before, up) {
        (Some(1), [false, _]) | (None, [false, _]) => Some(1),
        (Some(0), [_, false]) | (None, [_, false]) => Some(0),
        _ => None,
    }
}
