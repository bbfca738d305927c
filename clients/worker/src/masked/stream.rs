//! Keystreams, which look random without the key.

use aegis::aegis128x4::Aegis128X4;
use zerocopy::IntoBytes as _;
use zeroize::Zeroizing;

/// Bytes that a stream is made of: the cipher's key, and the first half of its nonces.
pub(super) const SECRET: usize = 16 + 8;

/// AEGIS-128X4 in pieces: each begins anew, with its number in the nonce, so that any can be made alone.
pub(super) struct Stream(Zeroizing<[u8; SECRET]>);

impl Stream {
    pub(super) fn new(secret: &[u8; SECRET]) -> Self {
        Self(Zeroizing::new(*secret))
    }

    /// The cipher with the nonce of a number.
    fn cipher(&self, number: u64) -> Aegis128X4<16> {
        let (mut key, mut nonce) = ([0; 16], [0; 16]);
        let (of_key, of_nonce) = self.0.split_at(16);
        key.copy_from_slice(of_key);
        nonce[..8].copy_from_slice(of_nonce);
        nonce[8..].copy_from_slice(&number.to_le_bytes());
        Aegis128X4::new(&key, &nonce)
    }

    /// Fills the words with a piece.
    pub(super) fn piece<T: zerocopy::IntoBytes + zerocopy::FromBytes>(&self, number: u64, words: &mut [T]) {
        self.cipher(number).stream(words.as_mut_bytes());
    }

    /// Encrypts, of a stream that is used for nothing else. Returns the tag.
    pub(super) fn seal(&self, plain: &mut [u8], beside: &[u8]) -> [u8; 16] {
        self.cipher(0).encrypt_in_place(plain, beside)
    }

    /// Decrypts; false if it is not what has been sealed.
    pub(super) fn open(&self, sealed: &mut [u8], tag: &[u8; 16], beside: &[u8]) -> bool {
        self.cipher(0).decrypt_in_place(sealed, tag, beside).is_ok()
    }
}
