//! Packets of a job's parent.

use pascaline_wire::control::{Action, Control};
use pascaline_wire::datagram::Datagram;
use pascaline_wire::header::Flags;

use super::{Class, Classifier, Untaken, untaken};

impl Classifier<'_> {
    /// True if the sender is the parent of the job that a packet names.
    pub(super) fn is_from_above(&self, datagram: &Datagram) -> bool {
        let above = self.table.get(datagram.header.job).and_then(|job| job.parent.as_deref());
        above.is_some_and(|above| above.is_at(datagram.sender))
    }

    /// An answer of a parent's, in force or not, which may have a trailer.
    pub(super) fn answer_from_above(
        &self,
        bytes: &[u8],
        datagram: &Datagram,
    ) -> Result<Option<Class>, Untaken> {
        let above = self.table.get(datagram.header.job).and_then(|job| job.parent.as_deref());
        if !above.is_some_and(|above| above.senders.contains(&datagram.sender))
            || datagram.header.flags.has(Flags::BYPASS)
        {
            return Ok(None);
        }
        let whole = datagram.payload.whole(bytes);
        let (control, _) = Control::parse_with_trailer(&datagram.header, whole).map_err(untaken)?;
        let answer = || Class::Control(*datagram, control);
        Ok((control.action == Action::Ack).then(answer))
    }
}
