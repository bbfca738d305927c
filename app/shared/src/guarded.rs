//! APIs behind a guard: bounded, on a Unix socket or a port, for clients that have the token.

mod credentials;
mod guard;
mod problem;
mod serve;
mod socket;
mod token;

pub use credentials::{Credentials, InForce};
pub use problem::{FilePlace, Problem};
pub use serve::{BODY, Rejected, behind_guard};
pub use socket::unix;
pub use token::{Token, Unfit};
