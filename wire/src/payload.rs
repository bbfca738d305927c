//! What may stand between the aggregation header and the trailer, by kind.

use crate::header::{Flags, Header, Kind};
use crate::malformed::Malformed;
use crate::trailer::Trailer;

impl Header {
    /// Splits `body`, all that follows the header in its datagram, into payload and trailer.
    ///
    /// Gradients, results, partials and updates carry at least one element, and no part of one. Acks may
    /// carry elements. Reminders and fetches carry nothing. The payload of control packets is read by
    /// [`Control::parse`](crate::control::Control::parse), which knows its length.
    ///
    /// # Errors
    /// `Trailer` if the flag announces one that is not there; `PayloadLength` if the payload is not as said
    /// above.
    #[inline]
    pub fn payload<'a>(&self, body: &'a [u8]) -> Result<(&'a [u8], Option<Trailer>), Malformed> {
        let (payload, trailer) = if self.flags.has(Flags::TRAILER) {
            let (payload, trailer) = Trailer::split(body)?;
            (payload, Some(trailer))
        } else {
            (body, None)
        };
        let whole = payload.len().is_multiple_of(self.element.dtype.size());
        let fits = match self.kind {
            Kind::Gradient | Kind::Result | Kind::Partial | Kind::Update => whole && !payload.is_empty(),
            Kind::Ack => whole,
            Kind::Reminder | Kind::Fetch => payload.is_empty(),
            Kind::Control => true,
        };
        if fits { Ok((payload, trailer)) } else { Err(Malformed::PayloadLength) }
    }
}
