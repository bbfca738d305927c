//! One key's cipher, on datagrams where they lie.

use core::fmt;
use core::ops::Range;

use aegis::aegis128x4::Aegis128X4;
use pascaline_wire::Flags;
use pascaline_wire::header::{self, Kind};
use zeroize::Zeroizing;

use crate::keys::Protection;

/// Bytes by which a seal makes a datagram longer: an element of its trailer, and a trailer's length where
/// there was none.
pub const LONGER: usize = ELEMENT + 2;

/// Type, length, counter and tag.
const ELEMENT: usize = 2 + 8 + 16;
/// Type and length of a seal.
const MARK: [u8; 2] = [8, 24];
const FLAGS: usize = 2;
/// Fields that are not covered: the rank, which the key proves in packets of a rank and which says nothing in
/// those to one, and the window's cap, which appliances on the way may lower.
const UNCOVERED: [Range<usize>; 2] = [6..8, 18..20];
/// The longest trailer behind an encrypted payload, without its seal: a bitmap, an update, a queue's state.
const BESIDE: usize = header::LEN + 256;
/// The longest datagram that is tried with a second key: of a jumbo frame.
const TRIED: usize = 10 << 10;

/// Why a datagram is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has no seal.
    Unsealed,
    /// Its seal was made with another key or number, or for other bytes.
    Forged,
    /// It is older than any that could still be on its way.
    Replayed,
    /// It answers another session: another rank's, where a group has it as well.
    Elsewhere,
    /// It has no seal, and says that the rank does not prove itself as the job demands, by this
    /// [code](crate::Protection::code). It only explains a silence, since any host can send it.
    Unproven(u32),
}

/// What a datagram is once it has been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// Its length without the seal.
    pub len: usize,
    /// Its number, which its sender uses once.
    pub counter: u64,
}

/// A key, and how it protects. It never shows, and is wiped when it is dropped.
#[derive(Clone)]
pub struct Cipher {
    key: Zeroizing<[u8; 16]>,
    protection: Protection,
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cipher").field("protection", &self.protection).finish_non_exhaustive()
    }
}

/// The number in a datagram's seal; `None` without one.
#[must_use]
pub fn counter(datagram: &[u8]) -> Option<u64> {
    let at = seal_of(datagram)?;
    datagram.get(at + 2..at + 10)?.try_into().ok().map(u64::from_be_bytes)
}

/// Where the seal of a datagram begins.
fn seal_of(datagram: &[u8]) -> Option<usize> {
    if datagram.get(FLAGS)? & Flags::TRAILER.bits() == 0 {
        return None;
    }
    let at = datagram.len().checked_sub(LONGER)?;
    let trailer = usize::from(trailer_len(datagram)?);
    let fits = trailer >= LONGER && datagram.len() - trailer.min(datagram.len()) >= header::LEN;
    (fits && datagram.get(at..at + 2)? == MARK).then_some(at)
}

fn trailer_len(datagram: &[u8]) -> Option<u16> {
    datagram.last_chunk::<2>().copied().map(u16::from_be_bytes)
}

impl Cipher {
    pub(crate) const fn new(key: Zeroizing<[u8; 16]>, protection: Protection) -> Self {
        Self { key, protection }
    }

    /// Seals the first `len` bytes of `room`, a whole datagram from the protocol's header on, with a number.
    /// Returns the sealed one's length; `None` if the room is less than [`LONGER`] more, or if the bytes are
    /// no datagram.
    ///
    /// `of` and `counter` together must never be used twice with one key: the cipher breaks then.
    #[must_use]
    pub fn seal(&self, of: u64, counter: u64, room: &mut [u8], len: usize) -> Option<usize> {
        let plain = room.get(..len)?;
        let trailed = plain.get(FLAGS)? & Flags::TRAILER.bits() != 0;
        let elements = if trailed { usize::from(trailer_len(plain)?).checked_sub(2)? } else { 0 };
        let at = if trailed { len - 2 } else { len };
        let payload = header::LEN..at.checked_sub(elements).filter(|&end| end >= header::LEN)?;
        let (total, trailer) = (at + LONGER, u16::try_from(elements + LONGER).ok()?);
        let sealed = room.get_mut(..total)?;
        sealed[FLAGS] |= Flags::TRAILER.bits();
        sealed[at..at + 2].copy_from_slice(&MARK);
        sealed[at + 2..at + 10].copy_from_slice(&counter.to_be_bytes());
        let tag = Self::covered(sealed, trailer, |sealed| match self.encrypts(sealed) {
            false => Some(self.cipher(of, counter).encrypt_in_place(&mut [], &sealed[..at + 10])),
            true => beside(sealed, payload, at + 10, |payload, beside| {
                self.cipher(of, counter).encrypt_in_place(payload, beside)
            }),
        })?;
        sealed[at + 10..at + ELEMENT].copy_from_slice(&tag);
        sealed[at + ELEMENT..].copy_from_slice(&trailer.to_be_bytes());
        Some(total)
    }

    /// Opens a whole datagram, where it lies: up to the length returned, it is as it was before it was
    /// sealed.
    ///
    /// # Errors
    /// See [`Fault`]. The payload of a forged one may be overwritten.
    pub fn open(&self, of: u64, datagram: &mut [u8]) -> Result<Opened, Fault> {
        let at = seal_of(datagram).ok_or(Fault::Unsealed)?;
        let trailer = trailer_len(datagram).ok_or(Fault::Unsealed)?;
        let payload = header::LEN..datagram.len() - usize::from(trailer);
        let counter = counter(datagram).ok_or(Fault::Unsealed)?;
        let tag = datagram[at + 10..at + ELEMENT].try_into().map_err(|_| Fault::Unsealed)?;
        let opened = Self::covered(datagram, trailer, |datagram| match self.encrypts(datagram) {
            false => self.cipher(of, counter).decrypt_in_place(&mut [], &tag, &datagram[..at + 10]).ok(),
            true => beside(datagram, payload, at + 10, |payload, beside| {
                self.cipher(of, counter).decrypt_in_place(payload, &tag, beside).ok()
            })
            .flatten(),
        });
        opened.ok_or(Fault::Forged)?;
        if usize::from(trailer) == LONGER {
            datagram[FLAGS] &= !Flags::TRAILER.bits();
            return Ok(Opened { len: at, counter });
        }
        let left = u16::try_from(usize::from(trailer) - ELEMENT).map_err(|_| Fault::Forged)?;
        datagram[at..at + 2].copy_from_slice(&left.to_be_bytes());
        Ok(Opened { len: at + 2, counter })
    }

    /// As [`open`](Self::open), with another key if this one does not open it. Says whether it was the other.
    ///
    /// # Errors
    /// As there: neither does.
    pub fn open_or(&self, other: &Self, of: u64, datagram: &mut [u8]) -> Result<(Opened, bool), Fault> {
        // A first try with the wrong key destroys what is encrypted.
        let mut kept = [0; TRIED];
        let len = if self.encrypts(datagram) { datagram.len() } else { 0 };
        if let Some(kept) = kept.get_mut(..len) {
            kept.copy_from_slice(&datagram[..len]);
        }
        match self.open(of, datagram) {
            Err(Fault::Forged) => {}
            opened => return opened.map(|opened| (opened, false)),
        }
        datagram[..len].copy_from_slice(kept.get(..len).ok_or(Fault::Forged)?);
        other.open(of, datagram).map(|opened| (opened, true))
    }

    /// Calls `act` while the fields that are not covered have other values: the trailer's length, which lies
    /// behind the tag, and 0.
    fn covered<T>(datagram: &mut [u8], trailer: u16, act: impl FnOnce(&mut [u8]) -> Option<T>) -> Option<T> {
        let [rank, cap] = UNCOVERED;
        let (was_rank, was_cap) = ([datagram[6], datagram[7]], [datagram[18], datagram[19]]);
        datagram[rank.clone()].copy_from_slice(&trailer.to_be_bytes());
        datagram[cap.clone()].fill(0);
        let done = act(datagram);
        datagram[rank].copy_from_slice(&was_rank);
        datagram[cap].copy_from_slice(&was_cap);
        done
    }

    /// Whether the payload of this datagram is encrypted: values are, control bodies are not, whose session
    /// must be readable to open them.
    fn encrypts(&self, datagram: &[u8]) -> bool {
        self.protection == Protection::Encrypt && datagram.get(1) != Some(&(Kind::Control as u8))
    }

    fn cipher(&self, of: u64, counter: u64) -> Aegis128X4<16> {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&of.to_be_bytes());
        nonce[8..].copy_from_slice(&counter.to_be_bytes());
        Aegis128X4::new(&self.key, &nonce)
    }
}

/// Does something with an encrypted payload, and with what is authenticated beside it in one piece: header,
/// trailer and counter. Without other elements that piece is short: filling the longer one with zeros takes
/// as long as the cipher.
#[inline(always)]
fn beside<T>(
    datagram: &mut [u8],
    payload: Range<usize>,
    end: usize,
    act: impl FnOnce(&mut [u8], &[u8]) -> T,
) -> Option<T> {
    const SHORT: usize = header::LEN + 10;
    let header = *datagram.first_chunk::<{ header::LEN }>()?;
    let (rest, behind) = datagram.get_mut(..end)?.split_at_mut_checked(payload.end)?;
    let payload = rest.get_mut(payload)?;
    if let Ok(behind) = <[u8; 10]>::try_from(&*behind) {
        let mut beside = [0; SHORT];
        beside[..header::LEN].copy_from_slice(&header);
        beside[header::LEN..].copy_from_slice(&behind);
        return Some(act(payload, &beside));
    }
    let mut beside = [0; BESIDE];
    let len = header::LEN + behind.len();
    beside[..header::LEN].copy_from_slice(&header);
    beside.get_mut(header::LEN..len)?.copy_from_slice(behind);
    Some(act(payload, &beside[..len]))
}

#[cfg(test)]
mod tests;
