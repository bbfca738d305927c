//! Seals: a packet proves who has made it, and that nobody has changed it; nobody on its way reads it.
//!
//! Both ends of a job have [keys](keys) that are derived from one [secret]. A [`Cipher`] seals a datagram where
//! it lies, and opens it again: what is [sealed](Cipher::seal) is a few bytes longer, and what has been
//! [opened](Cipher::open) is the plain datagram once more. So nothing but the two ends of a path knows of seals.
//!
//! docs/protocol.md, section 14, has the bytes, docs/security.md what holds against whom. No I/O but the files
//! that keys are in; sealing and opening allocate nothing.

mod cipher;
pub mod keys;
mod member;
pub mod secret;

pub use cipher::{Cipher, Fault, LONGER, Opened, counter};
pub use keys::{Holder, JobKeys, Protection, RankKeys};
pub use member::MemberEnd;
pub use secret::{KeyError, Secret};
