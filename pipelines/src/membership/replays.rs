//! Requests that somebody sends once more.

use super::job::JobRecord;
use super::reply::ControlRequest;

impl JobRecord {
    /// True if the packets of the job are sealed, and this request is not newer than the latest of its session:
    /// somebody has recorded it, or it was overtaken. Each sending of a rank has a number of its own. Notes the
    /// number otherwise.
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
