//! Functions of the program that a worker calls while it waits.

use core::fmt;

/// A function that tells the user something: see [`Config::notice`](super::Config::notice).
#[derive(Clone, Copy)]
pub struct Notice(pub fn(&dyn fmt::Display));

/// A function that says whether to give up: see [`Config::interrupt`](super::Config::interrupt).
#[derive(Clone, Copy)]
pub struct Interrupt(pub fn() -> bool);

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interrupt")
    }
}

impl PartialEq for Notice {
    /// Configurations are compared for what they do to packets.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl PartialEq for Interrupt {
    /// Likewise.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Notice {}
impl Eq for Interrupt {}
