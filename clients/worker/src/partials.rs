//! Which ranks are inside results that may lack some.
//!
//! Where a job's policy completes a PSN early, a result names its ranks in a bitmap trailer. A worker that
//! passes such a result on must name the same ranks, so it keeps the trailer beside the result.

use pascaline_wire::Trailer;
use pascaline_wire::trailer::Bitmap;

use pascaline_wire::RankSet;

#[derive(Debug, Clone, Copy)]
struct Entry {
    psn: u32,
    count: u16,
    len: u16,
}

/// The ranks inside the latest results, by PSN. A forgotten one is not passed on: it could lack ranks.
#[derive(Debug)]
pub struct Partials {
    entries: Box<[Option<Entry>]>,
    trailers: Box<[u8]>,
    ranks: u16,
    stride: usize,
    mask: u32,
}

impl Partials {
    /// Room for the results that a worker may pass on: those of the window, and the `spread` before them.
    ///
    /// Memory for each of 2 × `spread` PSNs, rounded up to a power of two: 16 bytes, and 8 for every 64
    /// ranks.
    #[must_use]
    pub fn new(ranks: u16, spread: u16) -> Self {
        let ring = (2 * u32::from(spread.max(1))).next_power_of_two();
        let widest = Trailer { bitmap: Bitmap::new(ranks), ..Trailer::default() };
        let stride = widest.emitted_len();
        Self {
            entries: vec![None; ring as usize].into_boxed_slice(),
            trailers: vec![0; ring as usize * stride].into_boxed_slice(),
            ranks,
            stride,
            mask: ring - 1,
        }
    }

    /// Keeps which ranks are inside a PSN's result: `None` for all.
    pub fn note(&mut self, psn: u32, inside: Option<&RankSet>) {
        let at = (psn & self.mask) as usize;
        self.entries[at] = match inside {
            None => Some(Entry { psn, count: self.ranks, len: 0 }),
            Some(inside) => {
                let trailer = Trailer { bitmap: inside.to_bitmap(self.ranks), ..Trailer::default() };
                let len = trailer.emit(&mut self.trailers[at * self.stride..][..self.stride]).ok();
                let len = len.and_then(|len| u16::try_from(len).ok());
                len.map(|len| Entry { psn, count: inside.len(), len })
            }
        };
    }

    /// How many ranks are inside the result of a PSN; `None` if that is forgotten.
    #[must_use]
    pub fn count(&self, psn: u32) -> Option<u16> {
        self.entry(psn).map(|entry| entry.count)
    }

    /// The trailer to send with the result of a PSN; empty if it contains all ranks.
    #[must_use]
    pub fn trailer(&self, psn: u32) -> &[u8] {
        let at = (psn & self.mask) as usize * self.stride;
        self.entry(psn).map_or(&[], |entry| &self.trailers[at..][..usize::from(entry.len)])
    }

    fn entry(&self, psn: u32) -> Option<&Entry> {
        self.entries[(psn & self.mask) as usize].as_ref().filter(|entry| entry.psn == psn)
    }
}
