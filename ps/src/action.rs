//! The packets for the driver to send.

use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Header, NoRoom, Trailer, header};

/// Where a packet goes. All of them leave towards the job's appliance, which has the addresses of its ranks;
/// an embedded server may send directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To the appliance itself: a fetch, or a result to be kept there and passed on to all ranks.
    Appliance,
    /// Through the appliance to this rank alone: flag BYPASS, and the rank in the header.
    Rank(u16),
}

/// A packet to send. The payload lies in the server's memory; it must be sent or copied before the next call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action<'a> {
    /// Where it goes.
    pub to: Destination,
    /// The header, complete.
    pub header: Header,
    /// Elements, in results; a control body, in rejections; otherwise empty.
    pub payload: &'a [u8],
    /// Which ranks are inside, in results that do not contain all.
    pub bitmap: Option<Bitmap>,
}

impl Action<'_> {
    /// Bytes of the datagram.
    #[must_use]
    pub fn len(&self) -> usize {
        header::LEN + self.payload.len() + self.trailer().map_or(0, |trailer| trailer.emitted_len())
    }

    /// Never: there is always a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The trailer, if there is one; the header's flag TRAILER says the same.
    #[must_use]
    pub fn trailer(&self) -> Option<Trailer> {
        self.bitmap.map(|bitmap| Trailer { bitmap: Some(bitmap), ..Trailer::default() })
    }

    /// Writes the datagram to the start of `out` and returns its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`len`](Self::len).
    pub fn write(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let rest = self.header.emit(out)?;
        let (place, rest) = rest.split_at_mut_checked(self.payload.len()).ok_or(NoRoom)?;
        place.copy_from_slice(self.payload);
        let trailer = self.trailer().map_or(Ok(0), |trailer| trailer.emit(rest))?;
        Ok(header::LEN + self.payload.len() + trailer)
    }
}
