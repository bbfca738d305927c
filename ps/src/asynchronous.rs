//! The server of asynchronous training (Olaf): each update changes its cluster's weights on arrival, and is
//! answered with them.
//!
//! A pure state machine like the synchronous server in this crate, and without timers: [`AsyncServer`] takes
//! datagrams and the time of day, and returns replies. [`rule`] has the rules by which updates change
//! weights, [`age`] measures how old they are.
//!
//! ```
//! use pascaline_ps::asynchronous::{AsyncJob, AsyncServer, Rule, Settings, AsyncOutcome};
//! use pascaline_wire::{Element, Flags, Header, Kind, Trailer, trailer, Own};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = AsyncServer::new(Settings { rule: Rule::Olaf { rate: 0.5 }, ..Settings::default() });
//! server.set_job(1, AsyncJob { fan_in: 3, epoch: 7, payload: 8 });
//! let header = Header {
//!     kind: Kind::Update, flags: Flags::TRAILER, element: Element::F32_SUM, job: 1, rank: 2, psn: 0,
//!     fan_in: 3, count: 2, own: Own::NONE, epoch: 7,
//! };
//! // The weights that a worker begins with.
//! let first = Header { kind: Kind::Gradient, flags: Flags::BYPASS, psn: u32::MAX, count: 1, ..header };
//! let mut datagram = first.to_bytes().to_vec();
//! datagram.extend([0.0_f32, 0.0].into_iter().flat_map(f32::to_le_bytes));
//! assert_eq!(server.handle_datagram(0, &datagram), AsyncOutcome::Initialised);
//! let update = trailer::Update { reward: 1.0, generated_ns: 1000 };
//! let mut datagram = header.to_bytes().to_vec();
//! // The sum of two workers' gradients.
//! datagram.extend([6.0_f32, 2.0].into_iter().flat_map(f32::to_le_bytes));
//! let mut end = [0; trailer::MAX_LEN];
//! let length = Trailer { update: Some(update), ..Trailer::default() }.emit(&mut end)?;
//! datagram.extend_from_slice(&end[..length]);
//! assert_eq!(server.handle_datagram(3000, &datagram), AsyncOutcome::Applied);
//! assert_eq!(server.weights(1), Some(&[1.5, 0.5][..]));
//! let mut reply = Vec::new();
//! assert!(server.next_reply(&mut reply), "an acknowledgement with these weights");
//! # Ok(())
//! # }
//! ```

pub mod age;
mod kept;
mod outcome;
pub mod pace;
pub mod rule;
mod server;

pub use age::{Age, jain};
pub use kept::{Kept, NotKept};
pub use outcome::{AsyncCounters, AsyncOutcome};
pub use pace::Pace;
pub use rule::{Combined, Rule};
pub use server::{AsyncJob, AsyncServer, Audience, Cluster, Settings};
