//! What an answer says, and to whom.

use core::time::Duration;

use pascaline_wire::control::{ASK, Action, Control, Status};
use pascaline_wire::trailer::{Bitmap, RankReports, RankState};

use super::Membership;
use super::job::{Decision, JobRecord, Names, source};
use super::reply::{Answer, ControlRequest, answer_header};

/// To whom an answer shows how the job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// To nobody: its sender is a stranger, or may be.
    Never,
    /// To members, servers, and whoever has proved to be where it says.
    ToKnown,
    /// To anybody: it asks for a rank that is free.
    Always,
}

impl Membership {
    /// The answer to a request, which says no more than its sender may know.
    pub(super) fn answer(
        &self,
        now: Duration,
        request: &ControlRequest,
        decision: &Decision,
        proposed: Option<&JobRecord>,
    ) -> Answer {
        let ControlRequest { header, control, from, .. } = request;
        let &Decision { status, expected, got, names, changed, shown } = decision;
        let job = proposed.or_else(|| self.jobs.get(&header.job));
        let joins = control.action == Action::Join;
        // To a Join always: what comes next may be about another generation.
        let proves = joins || (control.action, status) == (Action::Serve, Status::Pending);
        let mut header = answer_header(header, job.map_or(0, |job| job.spec.fan_in), 0);
        let mut control = Control {
            status,
            answers: Some(control.action),
            number: control.number,
            expected,
            got,
            psn: if control.action == Action::Query { control.psn } else { 0 },
            ..Control::request(Action::Ack, control.session)
        };
        let mut hidden = false;
        if let Some(job) = job {
            control.cookie = if proves { job.cookie(request) } else { 0 };
            let tells = joins || control.answers == Some(Action::Serve);
            if let Some(seals) = job.seals.as_ref().filter(|_| tells) {
                control = control.with_salt(seals.salt());
            }
            hidden = !job.shows(shown, request, control.cookie);
            if !hidden {
                let (joined, granted) = job.joined_and_granted();
                (control.joined, header.epoch) = (joined, job.epoch);
                let member = job.is_member(request);
                // A rank that only asks may begin another generation, with a payload of its own: it learns
                // how much that may be.
                let most = if request.control.got == ASK { job.spec.limit() } else { 0 };
                control.payload = if joins && !member { most } else { job.payload };
                let asked = if joins { request.control.window } else { u16::MAX };
                control.window = granted.min(asked);
                if member && matches!(request.control.action, Action::Join | Action::Leave) {
                    control.psn = job.base;
                }
                if joins && member {
                    control.congestion = job.spec.congestion;
                    control.workers = job.state.begun().map_or(0, |running| running.workers);
                    control.group = job.spec.multicast.filter(|group| group.admits(from.address));
                }
            }
        }
        // A generation that is none of the sender's, and tells nothing of the job's.
        header.epoch = if hidden && !joins { request.header.epoch ^ 0x8000 } else { header.epoch };
        control.expected = if hidden && status == Status::WrongEpoch { 0 } else { expected };
        Answer {
            header,
            control,
            lost: job.and_then(|job| job.named(names, header.rank)),
            operations: if let Names::Operations(operations) = names { Some(operations) } else { None },
            ranks: job.and_then(|job| job.ranks_named(now, names)),
            sentence: job.filter(|_| status == Status::Objective).and_then(|job| job.spec.refused),
            changed,
        }
    }
}

impl JobRecord {
    /// The ranks that a trailer names; `None` of a job for which no bitmap is wide enough, which no
    /// configuration admits.
    pub(super) fn named(&self, names: Names, sender: u16) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new(self.spec.fan_in)?;
        let named = match names {
            Names::Nobody | Names::Operations(_) | Names::Left { .. } | Names::Missing { .. } => return None,
            Names::Sender => vec![sender],
            Names::Lost => self.numbers(|rank| rank.lost),
        };
        for number in named {
            let _ = bitmap.insert(number);
        }
        Some(bitmap)
    }

    /// True if the sender of a request is a member of the present generation, by its session and address.
    pub(super) fn is_member(&self, request: &ControlRequest) -> bool {
        let rank = self.ranks.get(usize::from(request.header.rank)).filter(|rank| rank.joined.is_some());
        rank.and_then(|rank| rank.latest).is_some_and(|latest| latest.sent(request))
    }

    fn shows(&self, to: Shown, request: &ControlRequest, cookie: u64) -> bool {
        to == Shown::Always || to == Shown::ToKnown && self.knows(request, cookie)
    }

    /// True if the answer to a request goes to whoever has been a member of this generation or of one before,
    /// by its session and address, or to the job's server; or if it proves by this cookie where it is.
    fn knows(&self, request: &ControlRequest, cookie: u64) -> bool {
        let ControlRequest { header, control, from, .. } = request;
        if control.action == Action::Join && control.cookie == cookie {
            return true;
        }
        if let (Action::Serve, Some(server)) = (control.action, self.spec.kind.server_at()) {
            return source(from) == server;
        }
        let latest = self.ranks.get(usize::from(header.rank)).and_then(|rank| rank.latest);
        latest.is_some_and(|latest| latest.sent(request))
    }

    /// What a trailer tells of ranks.
    pub(super) fn ranks_named(&self, now: Duration, names: Names) -> Option<RankReports> {
        let reports = match names {
            Names::Nobody | Names::Sender | Names::Lost | Names::Operations(_) => None,
            Names::Left { psn } => Some(self.reports(now, psn, |state| state == RankState::Left)),
            Names::Missing { psn } => Some(self.reports(now, psn, |state| state != RankState::Here)),
        };
        reports.filter(|reports| !reports.as_slice().is_empty())
    }
}
