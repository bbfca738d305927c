//! What a job demands of a Join, whoever sends it.

use pascaline_wire::control::{Control, Status};

use super::claim::Claim;
use super::job::{Decision, JobRecord};
use super::join::payload_refused;
use super::offer::Offer;
use super::reply::ControlRequest;
use super::spec::Admission;

impl JobRecord {
    /// Whether the job's terms allow a Join: if so, of which rank, and with which payload.
    pub(super) fn admits(
        &self,
        request: &ControlRequest,
        admission: Option<&Admission>,
    ) -> Result<(usize, Offer), Decision> {
        let ControlRequest { header, control, .. } = request;
        let at = self.rank(header)?;
        self.check_source(request, at, admission)?;
        let offer = Offer::of(control.payload);
        // Whoever wants to go on cannot send anything else, and is told so where it may begin anew.
        let claims = Claim::of(control).is_some();
        let limit = if claims { self.spec.max_payload } else { self.spec.limit() };
        let Some(offer) = offer.filter(|offer| offer.takes_less() || offer.bytes() <= limit) else {
            return Err(payload_refused(limit, control.payload).hidden());
        };
        check_values(control)?;
        if control.workers > 0 && !self.takes_subtrees() {
            return Err(Decision::new(Status::Unsupported, 0, control.workers).hidden());
        }
        Ok((at, offer))
    }

    fn check_source(
        &self,
        request: &ControlRequest,
        at: usize,
        admission: Option<&Admission>,
    ) -> Result<(), Decision> {
        let from = &request.from;
        let listed = self.spec.admitted.as_ref().is_none_or(|listed| listed.get(at) == Some(&from.address));
        // What an operator changes holds for those who come from then on.
        let near = self.founder.is_none()
            || self.is_member(request)
            || admission.is_some_and(|admission| admission.admits(from.address));
        #[expect(clippy::cast_possible_truncation, reason = "a rank's number")]
        let rank = at as u32;
        if listed && near { Ok(()) } else { Err(Decision::new(Status::SourceRefused, 0, rank).hidden()) }
    }
}

/// Values that no Join may have.
fn check_values(control: &Control) -> Result<(), Decision> {
    let nothing = control.expected != 0 && Claim::of(control).is_none();
    let refused = |got| Err(Decision::new(Status::Unsupported, 0, got).hidden());
    if nothing {
        refused(control.expected)
    } else if control.window == 0 {
        refused(0)
    } else {
        Ok(())
    }
}
