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
    #[inline(always)]
    pub fn payload<'a>(&self, body: &'a [u8]) -> Result<(&'a [u8], Option<Trailer>), Malformed> {
        // Returned apart: a trailer that is not there is not copied.
        if !self.flags.has(Flags::TRAILER) {
            return if self.fits(body.len()) { Ok((body, None)) } else { Err(Malformed::PayloadLength) };
        }
        let (payload, trailer) = Trailer::split(body)?;
        if self.fits(payload.len()) { Ok((payload, Some(trailer))) } else { Err(Malformed::PayloadLength) }
    }

    #[inline(always)]
    const fn fits(&self, len: usize) -> bool {
        let size = self.element.dtype.size();
        // All but blocks have sizes that are powers of two: no division on the way of every packet.
        let whole =
            if self.element.dtype.is_block() { len.is_multiple_of(size) } else { len & (size - 1) == 0 };
        match self.kind {
            Kind::Gradient | Kind::Result | Kind::Partial | Kind::Update => whole && len != 0,
            Kind::Ack => whole,
            Kind::Reminder | Kind::Fetch => len == 0,
            Kind::Control => true,
        }
    }
}
