//! What members may do to their job: iSwitch's Reset, SetH and Halt (Table 2).

use core::time::Duration;

use pascaline_wire::control::{Action, Status};

use super::job::{Decision, JobRecord, Reset, source};
use super::reply::ControlRequest;
use super::uplink::Uplink;

impl JobRecord {
    /// Carries out the command of a member. FBcast and Help name a PSN, of which this side of the appliance
    /// knows nothing: lcores deal with them.
    pub(super) fn command(&mut self, now: Duration, request: &ControlRequest) -> Result<Decision, Decision> {
        let action = request.control.action;
        if action == Action::Reset && self.has_been_reset(request) {
            return Ok(Decision::of(Status::Ok));
        }
        self.check_member(request)?;
        if !self.spec.control.admit(request.header.rank) {
            return Err(Decision::new(Status::NotPermitted, 0, u32::from(request.header.rank)));
        }
        match action {
            Action::Reset => Ok(self.reset(request)),
            Action::SetH => self.set_h(request.control.expected),
            Action::Halt => Ok(Decision { changed: self.halt(now), ..Decision::of(Status::Ok) }),
            other => Err(Decision::new(Status::Unsupported, 0, other as u32)),
        }
    }

    /// The sender must be a member of the present generation, at the address that it joined from.
    fn check_member(&self, request: &ControlRequest) -> Result<(), Decision> {
        let ControlRequest { header, control, from, .. } = request;
        let rank = &self.ranks[self.rank(header)?];
        let not_member = Err(Decision::new(Status::NotMember, 0, u32::from(header.rank)));
        // The epoch last: only whoever is known may learn from the answer whether it was right.
        match rank.latest {
            _ if rank.retired.contains(control.session) => Err(Decision::of(Status::StaleSession)),
            Some(latest) if control.session != latest.session => not_member,
            Some(latest) if latest.source != source(from) => {
                Err(Decision::new(Status::RankSpoofed, 0, u32::from(header.rank)))
            }
            Some(_) if header.epoch != self.epoch => {
                Err(Decision::new(Status::WrongEpoch, u32::from(self.epoch), u32::from(header.epoch)))
            }
            Some(_) if rank.present() => Ok(()),
            Some(_) | None => not_member,
        }
    }

    fn reset(&mut self, request: &ControlRequest) -> Decision {
        let ControlRequest { header, control, .. } = request;
        self.reset = Some(Reset { rank: header.rank, session: control.session, epoch: self.epoch });
        self.end_for_good();
        Decision { changed: true, ..Decision::of(Status::Ok) }
    }

    /// Ends the generation so that nobody resumes it, and a Halt with it; also above, where there is a
    /// parent.
    pub(super) fn end_for_good(&mut self) {
        self.unresumable.set(self.epoch, true);
        self.halted = false;
        self.threshold = self.spec.kind.threshold();
        self.uplink.iter_mut().for_each(|uplink| uplink.reset());
        self.next_generation(false);
    }

    /// Suspends the job, also above, where there is a parent. True if it was not suspended.
    pub(super) fn halt(&mut self, now: Duration) -> bool {
        let changed = !self.is_halted();
        if changed {
            self.halted = true;
            self.uplink.iter_mut().for_each(|uplink| uplink.halt());
            self.due = Some(now);
        }
        changed
    }

    /// True if the job is suspended, here or above.
    pub(super) fn is_halted(&self) -> bool {
        self.halted || self.uplink.as_ref().is_some_and(Uplink::is_halted)
    }

    /// True if this Reset has been carried out, and only its answer got lost.
    fn has_been_reset(&self, request: &ControlRequest) -> bool {
        let ControlRequest { header, control, from, .. } = request;
        let same = Reset { rank: header.rank, session: control.session, epoch: header.epoch };
        let rank = self.ranks.get(usize::from(header.rank)).and_then(|rank| rank.latest);
        self.reset == Some(same) && rank.is_some_and(|latest| latest.source == source(from))
    }

    fn set_h(&mut self, threshold: u32) -> Result<Decision, Decision> {
        if !self.spec.kind.is_early() {
            return Err(Decision::new(Status::Unsupported, 0, Action::SetH as u32));
        }
        let fan_in = self.spec.fan_in;
        let legal = u16::try_from(threshold).ok().filter(|wanted| (1..=fan_in).contains(wanted));
        let Some(wanted) = legal else {
            return Err(Decision::new(Status::FanInMismatch, u32::from(fan_in), threshold));
        };
        let changed = core::mem::replace(&mut self.threshold, wanted) != wanted;
        Ok(Decision { changed, ..Decision::of(Status::Ok) })
    }
}
