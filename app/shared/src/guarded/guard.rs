//! What is checked of each request before anything else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use super::credentials::InForce;
use super::problem::Problem;
use super::serve::Rejected;
use crate::http::names::is_local;

/// What is asked of a request.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) in_force: Arc<InForce>,
    /// The listener has an address, so that a browser can be made to talk to it.
    pub(super) by_name: bool,
    pub(super) time: Duration,
    /// How much longer a request to a path may take.
    pub(super) longer: fn(&str) -> Duration,
    pub(super) body_bytes: usize,
    pub(super) rejected: Arc<Rejected>,
}

/// Puts the guard before all routes.
pub(super) fn guarded(router: Router, guard: Guard) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::new(guard), check))
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    if let Err(problem) = guard.check(request.headers()) {
        return problem.into_response();
    }
    let time = guard.time + (guard.longer)(request.uri().path());
    match tokio::time::timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let remedy = "send the body at once, and ask again";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "the request takes too long", remedy).into_response()
        }
    }
}

impl Guard {
    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        // Browsers send it with whatever a page of somebody else's makes them do.
        if headers.contains_key(header::ORIGIN) {
            let remedy = "use a program, e.g. curl or `pascaline explain`";
            return Err(Problem::new(StatusCode::FORBIDDEN, "requests of web pages are refused", remedy));
        }
        let length =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > self.body_bytes as u64) {
            let remedy = "send less: a job, or nothing, is all that is asked for";
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long", remedy));
        }
        match &**self.in_force.token() {
            Some(token) => {
                let given = headers.get(header::AUTHORIZATION);
                if !given.is_some_and(|given| token.admits(given.as_bytes())) {
                    let rejected = self.rejected.count_token();
                    if rejected.is_power_of_two() {
                        tracing::warn!(rejected, "requests to the admin API without the right token");
                    }
                    let remedy = "send `Authorization: Bearer TOKEN` with the token of token_file";
                    return Err(Problem::new(StatusCode::UNAUTHORIZED, "no token, or a wrong one", remedy));
                }
                Ok(())
            }
            // Without a token, a name that somebody else's server resolves to this machine must not do (DNS
            // rebinding).
            None if self.by_name
                && !headers.get(header::HOST).is_some_and(|host| is_local(host.as_bytes())) =>
            {
                let remedy = "use localhost or a loopback address in the URL, or set token_file";
                Err(Problem::new(StatusCode::FORBIDDEN, "the Host is not this machine", remedy))
            }
            None => Ok(()),
        }
    }
}
