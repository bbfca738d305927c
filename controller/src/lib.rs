//! A controller of appliances: it knows the network, gives each job a tree of appliances, tells the
//! appliances over their admin APIs, tells workers where to go, and plans anew when an appliance fails.
//!
//! [`Core`] decides and does no I/O: it says what to ask of an appliance, is told the answer, and time is an
//! argument. Around it are a [`Store`] in SQLite, a router of HTTP ([`routes`]) and a picture. Whoever uses
//! the crate brings the server, and the client that carries an [`Ask`] to an appliance.
#![forbid(unsafe_code)]

mod config;
mod core;
mod network;
mod picture;
mod plan;
pub mod routes;
mod store;
mod tree;

pub use self::config::{Config, ConfigError, Job};
pub use self::core::{Ask, Core, Health, Method, Move, Next, Note, Placement, Stored, View};
pub use self::network::{Appliance, Host, Network, Switch};
pub use self::store::{Store, StoreError};
pub use self::tree::{Node, Planner, Refusal, Tree};
