//! Commands of a member to its job (iSwitch, section 3.2, Table 2; protocol, sections 9 and 11).

use core::fmt;
use core::net::SocketAddr;
use core::str::FromStr;
use core::time::Duration;

use pascaline_wire::Header;
use pascaline_wire::asking::Asking;
use pascaline_wire::control::{Action, Control, Status};

use super::receive::Handled;
use super::state::{Member, State, Task};
use super::{Event, Session, StartError, Transmit};
use crate::counters::Ignored;
use crate::identity::Membership;
use crate::rejection::Rejection;
use crate::way::{Check, Unreachable};

/// How long to wait for the answer to a Help: it may go to other ranks only.
const HELP: Duration = Duration::from_millis(250);

/// A member's command to its job. The job's configuration says who may give them; Help is for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Ends the generation for good, and a Halt: all ranks join anew, from nothing.
    Reset,
    /// Suspends the job until a Reset.
    Halt,
    /// Sets how many contributions complete a PSN.
    SetH(u16),
    /// Has the partial sum of a PSN sent out.
    FBcast(u32),
    /// Has the result of a PSN sent again, or asks the ranks that it lacks.
    Help(u32),
}

impl Command {
    const fn action(self) -> Action {
        match self {
            Self::Reset => Action::Reset,
            Self::Halt => Action::Halt,
            Self::SetH(_) => Action::SetH,
            Self::FBcast(_) => Action::FBcast,
            Self::Help(_) => Action::Help,
        }
    }

    const fn psn(self) -> Option<u32> {
        match self {
            Self::FBcast(psn) | Self::Help(psn) => Some(psn),
            Self::Reset | Self::Halt | Self::SetH(_) => None,
        }
    }

    /// The same with its PSN, if it names one, counted from this one on.
    #[must_use]
    pub const fn counted_from(self, first: u32) -> Self {
        match self {
            Self::FBcast(ahead) => Self::FBcast(first.wrapping_add(ahead)),
            Self::Help(ahead) => Self::Help(first.wrapping_add(ahead)),
            Self::Reset | Self::Halt | Self::SetH(_) => self,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset => f.write_str("reset"),
            Self::Halt => f.write_str("halt"),
            Self::SetH(ranks) => write!(f, "seth={ranks}"),
            Self::FBcast(psn) => write!(f, "fbcast={psn}"),
            Self::Help(psn) => write!(f, "help={psn}"),
        }
    }
}

/// As displayed.
impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = text.split_once('=').unwrap_or((text, ""));
        let psn = || value.parse().map_err(|_| format!("{word}=PSN: a number"));
        match word {
            "halt" | "reset" if !value.is_empty() => Err(format!("{word} takes no value")),
            "halt" => Ok(Self::Halt),
            "reset" => Ok(Self::Reset),
            "seth" => value
                .parse()
                .map(Self::SetH)
                .map_err(|_| "seth=H: how many contributions complete a PSN".to_owned()),
            "fbcast" => psn().map(Self::FBcast),
            "help" => psn().map(Self::Help),
            _ => Err("expected halt, reset, seth=H, fbcast=PSN or help=PSN".to_owned()),
        }
    }
}

/// Why a command had no effect, or none that could be seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFailure {
    /// The appliance said no: nothing has changed.
    #[error("{command}: {rejection}")]
    Refused {
        /// The command.
        command: Command,
        /// Its answer.
        #[source]
        rejection: Rejection,
    },
    /// No answer in time. For FBcast also if no part of the PSN can be in flight.
    #[error("{command}: no answer in {waited:.1?}{}", Silence(*.command, *.appliance, *.report))]
    NoAnswer {
        /// The command.
        command: Command,
        /// How long this worker waited.
        waited: Duration,
        /// The appliance, where the driver has named it.
        appliance: Option<SocketAddr>,
        /// What hosts on the way have reported.
        report: Option<Unreachable>,
    },
}

/// Possible causes of silence, at the end of a sentence.
struct Silence(Command, Option<SocketAddr>, Option<Unreachable>);

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Command::FBcast(psn) if self.2.is_none() => {
                write!(f, ": PSN {psn} is outside the job's window, or its result was lost")
            }
            _ => write!(f, ": {}", Check::new(self.1, self.2)),
        }
    }
}

/// A command in flight.
#[derive(Debug)]
pub(super) struct Commanding {
    command: Command,
    pub(super) asking: Asking,
    began: Duration,
    /// When it gives up.
    end: Duration,
}

impl Session {
    /// Sends a command to the job: [`Event::Commanded`] follows within `patience`. Not while an operation
    /// runs. After a Reset of its own the session goes on, from nothing, in the generation that follows.
    ///
    /// # Errors
    /// `Busy`, `Broken` or `Ended`; nothing has begun then.
    pub fn command(&mut self, now: Duration, command: Command, patience: Duration) -> Result<(), StartError> {
        self.may_begin()?;
        let patience = if matches!(command, Command::Help(_)) { patience.min(HELP) } else { patience };
        // An answer to an earlier command is none to this one.
        self.requests.outdate();
        let end = now.saturating_add(patience);
        let commanding = Commanding { command, asking: Asking::new(now), began: now, end };
        self.begin_task(now, Task::Command(commanding));
        Ok(())
    }

    /// The command, if it is due. A doubt about the generation is settled first.
    pub(super) fn order(&mut self, now: Duration) -> Option<Transmit> {
        let State::Member(Member { task: Some(Task::Command(commanding)), rejoin: None, .. }) =
            &mut self.state
        else {
            return None;
        };
        if !commanding.asking.is_due(now) {
            return None;
        }
        let command = commanding.command;
        let Membership { identity, session, epoch, .. } = self.membership;
        let header = Header { psn: command.psn().unwrap_or(0), ..identity.about(epoch) };
        let expected = if let Command::SetH(ranks) = command { ranks.into() } else { 0 };
        let request = Control::request(command.action(), session);
        let body = Control { number: self.requests.next(), expected, ..request };
        Some(Transmit::control(&header, &body))
    }

    /// When patience with a command ends, or the way to the appliance closes.
    pub(super) fn end_of_command(&self) -> Option<Duration> {
        let end = self.state.command()?.end;
        Some(self.way.closes().map_or(end, |closes| closes.min(end)))
    }

    /// The end of a command that got no answer.
    pub(super) fn give_up_command(&mut self, now: Duration) -> Option<Event> {
        let &Commanding { command, began, .. } = self.state.command()?;
        let failure = CommandFailure::NoAnswer {
            command,
            waited: now.saturating_sub(began),
            appliance: self.appliance,
            report: self.way.report(),
        };
        let asked = matches!(command, Command::Help(_)) && !self.way.is_closed(now);
        Some(self.commanded(if asked { Ok(()) } else { Err(failure) }))
    }

    /// Ends the command.
    pub(super) fn commanded(&mut self, outcome: Result<(), CommandFailure>) -> Event {
        self.state.take_task();
        Event::Commanded(outcome)
    }

    /// True for a rejection of what a command names, which is no answer to a request, and for a packet that
    /// shows that the command was carried out.
    pub(super) fn commands_about(&self, psn: u32) -> bool {
        self.state.command().is_some_and(|commanding| commanding.command.psn() == Some(psn))
    }

    /// An Ack to a command, or a rejection of the PSN that it names.
    pub(super) fn on_commanded(
        &mut self,
        now: Duration,
        (header, ack): (&Header, &Control),
        rejection: Option<Rejection>,
    ) -> Handled {
        let answers =
            |commanding: &Commanding| ack.answers.is_none_or(|action| action == commanding.command.action());
        let command = match self.state.command() {
            Some(commanding) if answers(commanding) => commanding.command,
            _ => return Err(Ignored::LateAnswer.into()),
        };
        if ack.status == Status::TooMany {
            return Err(Ignored::NotFatal.into());
        }
        if let Some(rejection) = rejection {
            self.counters.rejections += 1;
            return Ok(Some(self.commanded(Err(CommandFailure::Refused { command, rejection }))));
        }
        let event = self.commanded(Ok(()));
        if command == Command::Reset && header.epoch != self.membership.epoch {
            // The rank that asked for it needs no notice that its generation is over.
            self.requests.outdate();
            let _ = self.end_generation(now, header.epoch);
            if let State::Member(member) = &mut self.state {
                member.ended = None;
            }
        }
        Ok(Some(event))
    }
}
