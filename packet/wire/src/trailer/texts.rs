//! The wording of reports on ranks, for errors, logs, pages and `explain`.

use core::fmt;
use core::time::Duration;

use crate::call::Collective;
use crate::control::SERVER_RANK;
use crate::element::Element;

use super::reports::{Operation, Operations, RankReport, RankReports, RankState};

impl fmt::Display for RankReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == SERVER_RANK - 1 {
            return self.parent(f);
        }
        write!(f, "rank {}", self.rank)?;
        if self.port != 0 {
            write!(f, " ({} port {})", self.address, self.port)?;
        }
        let silent = Duration::from_millis(self.silent_ms.into());
        match self.state {
            RankState::NeverJoined => return f.write_str(" has never joined"),
            RankState::Left => f.write_str(" has left")?,
            RankState::Lost if self.silent_ms == 0 => f.write_str(" counts as dead")?,
            RankState::Lost => write!(f, " counts as dead: it was silent for {silent:.1?}")?,
            RankState::Silent => write!(f, " is silent for {silent:.1?}")?,
            RankState::Behind => f.write_str(" is alive")?,
            RankState::Here => f.write_str(" is alive and waits as well")?,
            RankState::Blocked => f.write_str(
                " is alive, but its data packets do not get through to the appliance (a firewall, or a path \
                 MTU below them)",
            )?,
            RankState::Overtaken => {
                f.write_str(" is alive, but waits for results that are kept no longer")?;
            }
        }
        match self.behind {
            0 => Ok(()),
            1 => f.write_str(", behind by 1 packet"),
            behind => write!(f, ", behind by {behind} packets"),
        }
    }
}

impl RankReport {
    /// The appliance above the ranks' own.
    fn parent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the parent appliance ({} port {}) ", self.address, self.port)?;
        match self.state {
            RankState::Silent => {
                write!(f, "has not answered for {:.1?}", Duration::from_millis(self.silent_ms.into()))
            }
            RankState::Blocked => {
                f.write_str("refuses this one: its job needs the `ranks` of `parent`, and this one's address")
            }
            RankState::Lost => f.write_str(
                "has given up the generation: one of its ranks was silent for longer than its `dead_after`",
            ),
            _ if self.behind == 1 => f.write_str("waits for 1 more appliance"),
            _ => write!(f, "waits for {} more appliances", self.behind),
        }
    }
}

impl fmt::Display for RankReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, report) in self.as_slice().iter().enumerate() {
            let comma = if place == 0 { "" } else { "; " };
            write!(f, "{comma}{report}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, differing } = self;
        write!(
            f,
            "rank {} calls {}, the others (rank {} is one) ",
            differing.rank,
            Call(differing),
            most.rank
        )?;
        write!(f, "call {}", Call(most))
    }
}

/// An operation, without the rank that calls it.
struct Call<'a>(&'a Operation);

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation { element, first, call, bytes, .. } = *self.0;
        match element {
            None => f.write_str("nothing"),
            Some(_) if call.collective == Collective::Barrier => write!(f, "{call} at PSN {first}"),
            Some(Element { dtype, op }) => {
                if call.collective != Collective::Allreduce {
                    write!(f, "{call}, ")?;
                }
                let op = if call.collective.copies() { "copy" } else { op.name() };
                write!(f, "{op} of {bytes} bytes of {dtype} at PSN {first}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
