//! How a program gives up while a worker joins: see [`Config::interrupt`](super::Config::interrupt).

use core::fmt;

/// A function that says whether to give up: see [`Config::interrupt`](super::Config::interrupt).
#[derive(Clone, Copy)]
pub struct Interrupt(pub fn() -> bool);

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

impl PartialEq for Interrupt {
    /// Configurations are compared for what they do to packets.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Interrupt {}
