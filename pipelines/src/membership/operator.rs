//! What an operator may do to a job, whoever its members are.

use core::time::Duration;

use super::job::JobRecord;
use super::liveness::Event;
use super::rank::Rank;
use super::{Membership, Rights};
use crate::jobs::Mode;

/// An order of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Ends the generation for good and a Halt with it, puts the threshold back, and frees every rank.
    Reset,
    /// Suspends the job until a Reset.
    Halt,
    /// Sets how many contributions complete a PSN.
    SetH(u16),
    /// Takes a rank for gone: for dead, if others may wait for it.
    Leave(u16),
    /// Gives the result of a PSN out again, or asks the ranks that it lacks.
    Help(u32),
    /// Sends out what there is of a PSN.
    FBcast(u32),
}

/// Why an order is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum Refused {
    #[error("there is no such job")]
    UnknownJob,
    #[error("the job's results are never partial: that takes a region and no parameter server")]
    Whole,
    #[error("the job has its place below another appliance: its results are those of all ranks there")]
    Levels,
    #[error("the job is asynchronous: it has no PSNs that ranks complete together")]
    Asynchronous,
    #[error(
        "the job's workers are SwitchML's clients: they cannot leave, their packets have no PSNs, and each \
            sum is of all of them"
    )]
    SwitchMl,
    #[error("H = {asked}, and the job has {ranks} ranks")]
    Threshold { asked: u16, ranks: u16 },
    #[error("rank {asked}, and the job has ranks 0 to {}", .ranks - 1)]
    NoSuchRank { asked: u16, ranks: u16 },
    #[error("rank {rank} is no member: it has not joined, has left, or counts as dead")]
    NotMember { rank: u16 },
    #[error("nobody has joined the job")]
    Deserted,
    #[error("the job is suspended")]
    Halted,
    #[error("PSN {psn} is not one that the job may have under way")]
    OutsideWindow { psn: u32 },
    #[error("the lcore has no room for a further order")]
    Busy,
}

/// What lcores are to do about a PSN on an operator's behalf, as though a rank had asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PsnOrder {
    pub(crate) job: u16,
    pub(crate) epoch: u16,
    pub(crate) rank: u16,
    pub(crate) psn: u32,
    /// FBcast, not Help.
    pub(crate) release: bool,
}

/// An order that is carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Obeyed {
    /// Lcores need a new table.
    pub changed: bool,
    /// What has followed.
    pub events: Vec<Event>,
    /// What is left to lcores.
    pub(crate) psn: Option<PsnOrder>,
}

impl Rights {
    /// Whether a rank may command by packets.
    #[must_use]
    pub const fn admit(self, rank: u16) -> bool {
        match self {
            Self::Members => true,
            Self::RankZero => rank == 0,
            Self::Operator => false,
        }
    }
}

impl Membership {
    /// Carries out an order of an operator. A job that Joins have formed ends with the last rank of a
    /// generation that has been complete; one that was not is forgotten in time.
    ///
    /// # Errors
    /// [`Refused`]: nothing has changed.
    pub fn command(&mut self, now: Duration, job: u16, command: Command) -> Result<Obeyed, Refused> {
        let found = self.jobs.get_mut(&job).ok_or(Refused::UnknownJob)?;
        found.told.set(None);
        let last = found.joined() == 1 && !found.state.is_forming();
        let mut obeyed = found.ordered(now, command)?;
        if last && matches!(command, Command::Leave(_)) && self.forget_if(job, |_, _| true) {
            obeyed.events.push(Event::Forgotten { job });
        }
        Ok(obeyed)
    }

    /// Ends a job that Joins have formed, whatever its members do. False if there is none of this number.
    pub(crate) fn dissolve(&mut self, job: u16) -> bool {
        self.forget_if(job, |_, _| true)
    }
}

impl JobRecord {
    fn ordered(&mut self, now: Duration, command: Command) -> Result<Obeyed, Refused> {
        let changed = |changed| Ok(Obeyed { changed, ..Obeyed::default() });
        let registered = self.spec.kind.registry().is_some();
        match command {
            Command::SetH(_) | Command::Leave(_) | Command::Help(_) | Command::FBcast(_) if registered => {
                Err(Refused::SwitchMl)
            }
            Command::Reset => {
                self.reset = None;
                self.end_for_good();
                // Whoever held a rank, however it came by it.
                self.ranks.iter_mut().for_each(|rank| *rank = Rank::default());
                changed(true)
            }
            Command::Halt => changed(self.halt(now)),
            Command::SetH(asked) => {
                let ranks = self.spec.fan_in;
                match () {
                    () if self.uplink.is_some() => Err(Refused::Levels),
                    () if !self.spec.kind.is_early() => Err(Refused::Whole),
                    () if !(1..=ranks).contains(&asked) => Err(Refused::Threshold { asked, ranks }),
                    () => changed(core::mem::replace(&mut self.threshold, asked) != asked),
                }
            }
            Command::Leave(rank) => self.dismiss(now, rank),
            Command::Help(psn) => self.about_psn(psn, false),
            Command::FBcast(psn) => self.about_psn(psn, true),
        }
    }

    fn dismiss(&mut self, now: Duration, rank: u16) -> Result<Obeyed, Refused> {
        let ranks = self.spec.fan_in;
        let at = usize::from(rank);
        let found = self.ranks.get(at).ok_or(Refused::NoSuchRank { asked: rank, ranks })?;
        if !found.present() {
            return Err(Refused::NotMember { rank });
        }
        let mut events = Vec::new();
        if self.state.is_forming() {
            self.remove(at);
            self.ranks[at].latest = None;
            events.push(Event::GaveUp { job: self.spec.id, rank });
        } else {
            self.lose(now, &[rank], &mut events);
        }
        Ok(Obeyed { changed: true, events, psn: None })
    }

    fn about_psn(&self, psn: u32, release: bool) -> Result<Obeyed, Refused> {
        let (rank, _) = self.present().next().ok_or(Refused::Deserted)?;
        match () {
            () if self.spec.kind.mode() == Mode::Olaf => Err(Refused::Asynchronous),
            () if release && self.uplink.is_some() => Err(Refused::Levels),
            () if release && !self.spec.kind.is_early() => Err(Refused::Whole),
            () if self.is_halted() => Err(Refused::Halted),
            () if !self.window().has(psn) => Err(Refused::OutsideWindow { psn }),
            () => {
                let order = PsnOrder { job: self.spec.id, epoch: self.epoch, rank, psn, release };
                Ok(Obeyed { psn: Some(order), ..Obeyed::default() })
            }
        }
    }
}
