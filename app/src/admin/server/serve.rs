//! What the API takes of a client, and what it turns away.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;

use super::credentials::InForce;
use super::guard::{Guard, guarded};
use super::orders::Orders;
use super::routes::router;
use crate::http::server::{Limits, Listener, Plan, Server};

/// Of connections.
const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    // Whoever reads slowly is not waited for any longer.
    connection: Duration::from_secs(120),
    head_bytes: 16 * 1024,
    farewell: Duration::from_millis(250),
};
/// For one request with its body and its answer; a capture has its own time beside.
const REQUEST: Duration = Duration::from_secs(10);
/// Bytes of a request's body.
const BODY: usize = 64 * 1024;

/// What was rejected before it became a request that means anything.
#[derive(Debug, Default)]
pub(crate) struct Rejected {
    connections: Arc<AtomicU64>,
    tokens: AtomicU64,
}

impl Rejected {
    /// Connections closed because there were too many.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests without the right token.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    pub(super) fn count_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Serves the API until the server is dropped.
///
/// # Errors
/// No thread could be started.
pub(crate) fn serve(
    listener: Listener,
    in_force: Arc<InForce>,
    orders: Orders,
    rejected: Arc<Rejected>,
) -> io::Result<Server> {
    behind_guard("admin", listener, in_force, router(orders, BODY), rejected)
}

/// Serves any routes as this API is served: bounded, and for whoever has the token.
///
/// # Errors
/// No thread could be started.
pub(crate) fn behind_guard(
    name: &'static str,
    listener: Listener,
    in_force: Arc<InForce>,
    router: Router,
    rejected: Arc<Rejected>,
) -> io::Result<Server> {
    let by_name = matches!(listener, Listener::Tcp(_));
    let connections = Arc::clone(&rejected.connections);
    let tls = in_force.server_config();
    let guard = Guard { in_force, by_name, time: REQUEST, body_bytes: BODY, rejected };
    Plan {
        name,
        listener,
        tls,
        limits: LIMITS,
        router: guarded(router, guard),
        background: None,
        rejected: connections,
    }
    .start()
}
