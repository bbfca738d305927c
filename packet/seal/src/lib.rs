//! Seals: a packet proves its sender, and that no host on its way has changed it or reads its values.
//!
//! Both ends of a job have [keys] that are derived from one [secret]. A [`Cipher`] seals a datagram where it
//! lies: [sealed](Cipher::seal), it is a few bytes longer; [opened](Cipher::open), it is the plain datagram
//! again. So only the two ends of a path handle seals.
//!
//! docs/protocol.md, section 14, has the bytes; docs/security.md says what holds against which attacker. No
//! I/O but the files that keys are in; sealing and opening allocate nothing.

mod cipher;
mod key_file;
pub mod keys;
mod member;
pub mod secret;
mod shared;

pub use cipher::{Cipher, Fault, LONGER, Opened, counter};
pub use key_file::KeyFile;
pub use keys::{Holder, JobKeys, Protection, RankKeys};
pub use member::MemberEnd;
pub use secret::{KeyError, Secret};
pub use shared::{NUMBER_BITS, Received, SharedEnd};
