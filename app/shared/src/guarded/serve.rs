//! What an API takes of a client, and what it turns away.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;

use super::credentials::InForce;
use super::guard::{Guard, guarded};
use crate::http::server::{Limits, Listener, Plan, Server};

/// Of connections.
const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(5),
    idle: Duration::from_secs(120),
    // A client that reads slowly is cut off.
    connection: Duration::from_secs(120),
    head_bytes: 16 * 1024,
    farewell: Duration::from_millis(250),
};
/// For one request with its body and its answer.
const REQUEST: Duration = Duration::from_secs(10);
/// Bytes of a request's body.
pub const BODY: usize = 64 * 1024;

/// What was rejected before it became a request that means anything.
#[derive(Debug, Default)]
pub struct Rejected {
    connections: Arc<AtomicU64>,
    tokens: AtomicU64,
}

impl Rejected {
    /// Connections closed because there were too many.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Requests without the right token.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    pub(super) fn count_token(&self) -> u64 {
        self.tokens.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Serves routes until the server is dropped: bounded, and for clients that have the token. `longer` is the
/// time that a request to a path may take beyond that of any other.
///
/// # Errors
/// No thread could be started.
pub fn behind_guard(
    name: &'static str,
    listener: Listener,
    in_force: Arc<InForce>,
    router: Router,
    rejected: Arc<Rejected>,
    longer: fn(&str) -> Duration,
) -> io::Result<Server> {
    let by_name = matches!(listener, Listener::Tcp(_));
    let connections = Arc::clone(&rejected.connections);
    let tls = in_force.server_config();
    let guard = Guard { in_force, by_name, time: REQUEST, longer, body_bytes: BODY, rejected };
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
