//! The admin API: HTTP and JSON for whoever operates the appliance.
//!
//! It has a thread and a runtime of its own, on the cores of its caller. That thread knows nothing and
//! changes nothing: each request becomes an [`Order`], and the control plane's loop, which takes a few orders
//! each turn, carries it out and answers. Lcores have no part in it. Everything is bounded: connections,
//! bytes of a request, the time that each takes, orders that wait.

mod answers;
mod body;
mod command;
mod credentials;
mod listener;
mod openapi;
mod orders;
mod patch;
mod routes;
mod serve;

pub(crate) use answers::*;
pub(crate) use command::Commanded;
pub(crate) use credentials::credentials;
pub(crate) use listener::{Bound, bind, tcp};
pub(crate) use orders::{JobKey, Order, Orders, Reply, Respond};
pub(crate) use patch::Patch;
pub(crate) use serve::serve;
