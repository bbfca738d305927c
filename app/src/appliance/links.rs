//! The ports' links: watched, logged when they change, and opened anew where an interface was made anew. With
//! `pass_link_state` the link of one port of a pair in line follows that of the other: the hosts behind it
//! see that the way is interrupted, as over a plain cable.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pascaline_dpdk::port::{LinkState, Started};
use pascaline_dpdk::{Errno, Port, PortStats};
use tracing::{error, info, warn};

use crate::config::Config;
use crate::observe::explain::PortHealth;

/// How often links are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// After a port could not be opened anew.
const AGAIN: Duration = Duration::from_millis(500);

/// All ports.
pub(super) struct Links {
    healths: Vec<PortHealth>,
    /// In the same order.
    watched: Vec<Watched>,
    pairs: Vec<Pair>,
    looked: Instant,
}

/// A port's device.
struct Watched {
    stats: PortStats,
    /// When it could not be opened anew.
    failed: Option<Instant>,
}

/// Two ports in line, by their numbers.
struct Pair {
    ends: [usize; 2],
    /// Their links can be taken away.
    able: [bool; 2],
    /// The end that is down because the other one is.
    held: Option<usize>,
}

impl Links {
    /// Looks at all of them for the first time.
    pub(super) fn new(config: &Config, ports: &[(String, Port<Started>)]) -> Self {
        let port = |(at, (name, port)): (usize, &(String, Port<Started>))| {
            let device = config.ports.get(at).map(|port| &port.device.value);
            let (mut health, stats) = (PortHealth::new(name, device), port.stats());
            see(&mut health, &stats);
            if health.is_in_trouble() {
                warn!(port = name, remedy = health.remedy(), "{health}");
            }
            (health, Watched { stats, failed: None })
        };
        let (healths, watched): (Vec<_>, Vec<_>) = ports.iter().enumerate().map(port).unzip();
        let try_link = |at: usize| {
            healths.get(at).zip(watched.get(at)).is_some_and(|(health, port)| try_link(health, &port.stats))
        };
        let pairs = config.ports.iter().enumerate().filter_map(|(at, written)| {
            let other = written.peer.filter(|&peer| config.in_line.pass_link_state && at < peer)?;
            Some(Pair { ends: [at, other], able: [at, other].map(try_link), held: None })
        });
        let pairs = pairs.collect();
        Self { pairs, healths, watched, looked: Instant::now() }
    }

    /// What the ports are like.
    pub(super) fn healths(&self) -> &[PortHealth] {
        &self.healths
    }

    /// A port whose card is being taken out: the kernel waits until the program lets go of it.
    pub(super) fn removed(&self) -> Option<&PortHealth> {
        self.healths.iter().find(|health| health.is_card_gone())
    }

    /// Looks at the links, if it is time. True if any has changed.
    pub(super) fn look(&mut self) -> bool {
        if self.looked.elapsed() < EVERY {
            return false;
        }
        self.looked = Instant::now();
        let before = self.healths.clone();
        let Self { healths, watched, pairs, .. } = self;
        healths.iter_mut().zip(watched.iter_mut()).for_each(|(health, port)| port.look(health));
        pairs.iter_mut().for_each(|pair| pair.look(healths, watched));
        self.healths != before
    }
}

/// Asks for the state of a port.
fn see(health: &mut PortHealth, stats: &PortStats) {
    health.link = match stats.link() {
        Ok(link) => Some(link),
        Err(Errno::NOTSUP) => None,
        Err(_) => health.link.is_some().then(|| LinkState::Missing.into()),
    };
}

impl Watched {
    /// Looks at a port, opens it anew if its interface was made anew, and logs what has changed.
    fn look(&mut self, health: &mut PortHealth) {
        let before = health.clone();
        see(health, &self.stats);
        if state(health) == Some(LinkState::Replaced) {
            self.reopen(health);
        } else {
            (health.hindrance, self.failed) = (None, None);
        }
        if *health != before {
            tell(health, &before);
        }
    }

    fn reopen(&mut self, health: &mut PortHealth) {
        if self.failed.is_some_and(|failed| failed.elapsed() < AGAIN) {
            return;
        }
        match self.stats.reopen() {
            Ok(()) => {
                info!(port = health.name, "its interface was made anew: the port is open on the new one");
                (health.hindrance, self.failed) = (None, None);
                see(health, &self.stats);
            }
            Err(error) => (health.hindrance, self.failed) = (Some(error.to_string()), Some(Instant::now())),
        }
    }
}

fn state(health: &PortHealth) -> Option<LinkState> {
    health.link.as_ref().map(|link| link.state)
}

/// Logs what has changed about a port, once.
fn tell(health: &PortHealth, before: &PortHealth) {
    let renamed = |health: &PortHealth| health.link.as_ref().and_then(|link| link.renamed.clone());
    if let Some(now) = renamed(health).filter(|now| renamed(before).as_ref() != Some(now)) {
        warn!(
            port = health.name,
            now,
            "its interface was given another name: it is still used, but will not be found at the next start"
        );
    }
    let same = state(health) == state(before) && health.hindrance == before.hindrance;
    if same || health.is_held() || before.is_held() {
        return;
    }
    match state(health) {
        Some(LinkState::Missing | LinkState::Replaced) => {
            error!(port = health.name, remedy = health.remedy(), "{health}");
        }
        Some(LinkState::Down | LinkState::Off) => {
            warn!(port = health.name, remedy = health.remedy(), "{health}");
        }
        Some(LinkState::Up) | None => info!(port = health.name, "{health}"),
    }
}

/// Whether a port's link can be taken away and given back: tried before it matters.
fn try_link(health: &PortHealth, stats: &PortStats) -> bool {
    let tried = stats.try_set_link();
    if let Err(errno) = tried {
        warn!(
            port = health.name, %errno, device = stats.name(),
            "pass_link_state: the link cannot follow that of its peer: the driver cannot, or a right is \
             missing (CAP_NET_ADMIN)"
        );
    }
    tried.is_ok()
}

impl Pair {
    fn look(&mut self, healths: &mut [PortHealth], watched: &[Watched]) {
        let up = self.ends.map(|end| healths.get(end).and_then(PortHealth::is_up));
        let [Some(left), Some(right)] = up else { return };
        let wanted = held(self.held, [left, right]);
        if wanted == self.held {
            return;
        }
        if let Some(end) = self.held {
            self.set(end, true, healths, watched);
        }
        if let Some(end) = wanted {
            self.set(end, false, healths, watched);
        }
        self.held = wanted;
    }

    fn set(&self, end: usize, up: bool, healths: &mut [PortHealth], watched: &[Watched]) {
        let (Some(&port), Some(true)) = (self.ends.get(end), self.able.get(end)) else { return };
        let (Some(health), Some(Watched { stats, .. })) = (healths.get_mut(port), watched.get(port)) else {
            return;
        };
        health.held = !up;
        match stats.set_link(up) {
            Ok(()) => info!(port = health.name, up, "the link follows that of its peer"),
            Err(errno) => {
                warn!(port = health.name, up, %errno, "the link does not follow that of its peer");
            }
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let Self { healths, watched, pairs, .. } = self;
        for pair in pairs {
            if let Some(end) = pair.held {
                pair.set(end, true, healths, watched);
            }
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
