//! The payload between the aggregation header and the trailer, by kind.

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
    /// # Errors `Trailer` if the announced one is missing; `PayloadLength` if the payload is not as described
    /// above.
    #[inline(always)]
    pub fn payload<'a>(&self, body: &'a [u8]) -> Result<(&'a [u8], Option<Trailer>), Malformed> {
        // Returned apart, so that an absent trailer is not copied.
        if !self.flags.has(Flags::TRAILER) {
            return self.check_len(body.len()).map(|()| (body, None));
        }
        let (payload, trailer) = Trailer::split(body)?;
        self.check_len(payload.len()).map(|()| (payload, Some(trailer)))
    }

    /// Checks the length of a payload, as [`payload`](Self::payload) says.
    #[inline(always)]
    pub(crate) const fn check_len(&self, len: usize) -> Result<(), Malformed> {
        let whole = self.element.dtype.divides(len);
        let fits = match self.kind {
            Kind::Gradient | Kind::Result | Kind::Partial | Kind::Update => whole && len != 0,
            Kind::Ack => whole,
            Kind::Reminder | Kind::Fetch => len == 0,
            Kind::Control => true,
        };
        if fits { Ok(()) } else { Err(Malformed::PayloadLength) }
    }
}
