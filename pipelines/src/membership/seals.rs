//! Sealed requests and their answers.

use super::Membership;
use super::job::JobRecord;
use super::reply::ControlRequest;
use crate::seals::Sealing;

impl JobRecord {
    /// True if the packets of the job are sealed, and this request is not newer than the latest one of its
    /// session: it was recorded and sent again, or was overtaken. Each sending of a rank has a number of its
    /// own. Notes the number otherwise.
    pub(super) fn repeats(&mut self, request: &ControlRequest) -> bool {
        let Some(rank) = self.ranks.get_mut(usize::from(request.header.rank)) else { return false };
        let sealed = self.seals.is_some();
        let latest = rank.latest.as_mut().filter(|latest| latest.session == request.control.session);
        let Some(latest) = latest.filter(|_| sealed) else { return false };
        let number = request.control.number;
        let newer = latest.number == 0 || (1..1 << 31).contains(&number.wrapping_sub(latest.number));
        if newer {
            latest.number = number;
        }
        !newer
    }
}

impl Membership {
    /// The seal of the answer to a request; `None` where packets have none.
    pub(crate) fn sealing(&mut self, request: &ControlRequest) -> Option<Sealing<'_>> {
        let seals = self.jobs.get(&request.header.job)?.seals.as_ref()?;
        self.sealed += 1;
        seals.answering(request.header.rank, request.control.session, self.secret.answer(self.sealed))
    }
}
