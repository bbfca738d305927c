//! A reason in words, for people.

use core::fmt;

/// A line of text, UTF-8, without control characters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sentence {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl Sentence {
    /// The most bytes.
    pub const MAX: usize = 224;

    /// The text without control characters, cut to the room; `None` if nothing is left.
    ///
    /// ```
    /// use pascaline_wire::trailer::Sentence;
    ///
    /// assert_eq!(Sentence::new("too\nold").unwrap().as_str(), "tooold");
    /// assert!(Sentence::new("\n").is_none());
    /// assert_eq!(Sentence::new(&"ä".repeat(200)).unwrap().as_str(), "ä".repeat(112));
    /// ```
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 224")]
    pub fn new(text: &str) -> Option<Self> {
        let mut sentence = Self { len: 0, bytes: [0; Self::MAX] };
        for character in text.chars().filter(|character| !character.is_control()) {
            let at = usize::from(sentence.len);
            let Some(room) = sentence.bytes.get_mut(at..at + character.len_utf8()) else { break };
            sentence.len += character.encode_utf8(room).len() as u8;
        }
        (sentence.len > 0).then_some(sentence)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// One encoding for each text: a parsed one contains no character that `new` would leave out.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        Self::new(core::str::from_utf8(value).ok()?).filter(|sentence| sentence.as_bytes() == value)
    }
}

impl fmt::Debug for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
