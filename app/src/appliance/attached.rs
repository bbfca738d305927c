//! What hosts and the bridge have to learn when a port's link goes or comes: the bridge forgets what was
//! behind it, and the hosts behind one that comes up learn where the appliance is.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pascaline_dpdk::port::LinkState;
use pascaline_pipelines::{ControlPlane, Ports};

use crate::observe::explain::PortHealth;

/// How often links are looked at.
const EVERY: Duration = Duration::from_millis(100);

/// The links of all ports, as they were found last.
pub(super) struct Attached {
    links: Links,
    looked: Instant,
}

impl Attached {
    /// Tells the hosts behind all ports, and begins to watch.
    pub(super) fn begin(ports: usize, plane: &mut ControlPlane, now: Duration) -> Self {
        plane.announce(now, Ports::of(0..ports));
        Self { links: Links::default(), looked: Instant::now() }
    }

    /// Looks at what the ports are like, if it is time.
    pub(super) fn look(&mut self, plane: &mut ControlPlane, now: Duration, healths: &[PortHealth]) {
        if self.looked.elapsed() < EVERY {
            return;
        }
        self.looked = Instant::now();
        let up = healths.iter().map(|port| port.link.as_ref().map(|link| link.state == LinkState::Up));
        let News { lost, came } = self.links.look(up);
        plane.forget_behind(lost);
        plane.announce(now, came);
    }
}

/// Changes of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct News {
    /// The bridge has to forget the stations behind these.
    lost: Ports,
    /// These have come up.
    came: Ports,
}

/// Links that have been seen up, or down.
#[derive(Debug, Default)]
struct Links {
    down: Ports,
    /// They were lost when they were looked at last: lcores may have received frames since then that had
    /// arrived before.
    lately: Ports,
}

impl Links {
    /// What each port says: up, down, or nothing, if it cannot be asked.
    fn look(&mut self, up: impl Iterator<Item = Option<bool>>) -> News {
        let (mut down, mut lost, mut came) = (self.down, self.lately, Ports::NONE);
        for (port, up) in up.enumerate() {
            match up {
                Some(false) if !self.down.has(port) => (down, lost) = (down.with(port), lost.with(port)),
                Some(true) if self.down.has(port) => (down, came) = (down.without(port), came.with(port)),
                _ => {}
            }
        }
        let new = down.iter().filter(|&port| !self.down.has(port));
        (self.lately, self.down) = (Ports::of(new), down);
        News { lost, came }
    }
}
