//! What an appliance shows of itself: metrics, the page, `pascaline top`, and why a job is aggregated here or
//! not.

pub(crate) mod endpoints;
pub(crate) mod explain;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod top;
