//! A controller of appliances: it has the network's topology, gives each job a tree of appliances, configures
//! the appliances over their admin APIs, directs workers to them, and plans anew when an appliance fails.
//!
//! [`Core`] decides and does no I/O: it returns requests to appliances and takes their answers, and time is
//! an argument. Around it are a [`Store`] in SQLite or etcd, which [`Keeper`] keeps in step with it, a router
//! of HTTP ([`routes`]) and a picture. The caller supplies the server, and the client that carries an [`Ask`]
//! to an appliance.
#![forbid(unsafe_code)]

mod config;
mod core;
mod keeper;
mod network;
mod picture;
mod plan;
pub mod routes;
mod store;
mod tree;
mod trees;

pub use self::config::{Config, ConfigError, EtcdAt, Job, StoreAt};
pub use self::core::{
    Ask, Core, Health, LeadershipView, Method, Move, Next, NodeView, Note, Placement, Standing, Stored, View,
    Way,
};
pub use self::keeper::Keeper;
pub use self::network::{Appliance, Host, Network, Switch};
pub use self::store::{Clock, Store, StoreError, open};
pub use self::tree::{Node, Planner, Refusal, Tree};
