//! What is checked of each request before anything else, and what is written down of those that change
//! something.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use super::credentials::InForce;
use super::problem::Problem;
use super::serve::Rejected;
use super::token::Token;
use crate::http::names::is_local;
use crate::http::server::{Origin, Shown};

/// The last segment of paths whose requests have a secret in them, of which no log tells.
const SECRET: &str = "/key";
/// Characters of a request's body that the audit log has: more than any command, and most jobs.
const NOTED: usize = 400;

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

/// Who asks, by what the request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// No token is asked for.
    Unnamed,
    Operator,
    Reader,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::Unnamed => "without a token",
            Self::Operator => "token_file",
            Self::Reader => "read_token_file",
        }
    }
}

async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let who = match guard.check(request.headers(), reads) {
        Ok(who) => who,
        Err(problem) => return problem.into_response(),
    };
    let time = guard.time + (guard.longer)(request.uri().path());
    let answered =
        async { if reads { next.run(request).await } else { guard.written_down(who, request, next).await } };
    match tokio::time::timeout(time, answered).await {
        Ok(response) => response,
        Err(_) => {
            let remedy = "send the body at once, and ask again";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "the request takes too long", remedy).into_response()
        }
    }
}

/// A line of the audit log, written when it is dropped: also of a request that took too long, or whose client
/// is gone and whose order is carried out nevertheless. Its status is 0 then.
struct Line {
    who: String,
    from: String,
    asked: String,
    body: String,
    status: u16,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { who, from, asked, body, status } = self;
        tracing::info!(target: "audit", who, from, status, body, "audit: {asked}");
    }
}

impl Guard {
    /// Answers a request that may change something, and notes in the log who asked for what, from where, and
    /// with which answer.
    async fn written_down(&self, who: Who, request: Request, next: Next) -> Response {
        let (head, body) = request.into_parts();
        let from = head.extensions.get::<Origin>().map_or_else(String::new, Origin::to_string);
        let asked = format!("{} {}", head.method, head.uri.path());
        let shown = head.extensions.get::<Shown>().map(|Shown(name)| format!("certificate {name}"));
        let who = match (who, shown) {
            (Who::Unnamed, Some(shown)) => shown,
            (who, Some(shown)) => format!("{}, {shown}", who.name()),
            (who, None) => who.name().to_owned(),
        };
        let mut line = Line { who, from, asked, body: String::new(), status: 0 };
        let response = match to_bytes(body, self.body_bytes).await {
            Ok(body) => {
                if !head.uri.path().ends_with(SECRET) {
                    line.body = String::from_utf8_lossy(&body).chars().take(NOTED).collect();
                }
                next.run(Request::from_parts(head, Body::from(body))).await
            }
            Err(_) => too_long().into_response(),
        };
        line.status = response.status().as_u16();
        response
    }

    fn check(&self, headers: &HeaderMap, reads: bool) -> Result<Who, Problem> {
        // Browsers send it with whatever a page of somebody else's makes them do.
        if headers.contains_key(header::ORIGIN) {
            let remedy = "use a program, e.g. curl or `pascaline explain`";
            return Err(Problem::new(StatusCode::FORBIDDEN, "requests of web pages are refused", remedy));
        }
        let length =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > self.body_bytes as u64) {
            return Err(too_long());
        }
        let tokens = self.in_force.tokens();
        let given = headers.get(header::AUTHORIZATION).map(|given| given.as_bytes());
        let admitted = |token: &Token| given.is_some_and(|given| token.admits(given));
        match &tokens.all {
            Some(token) if admitted(token) => Ok(Who::Operator),
            Some(_) if tokens.read.as_ref().is_some_and(admitted) => {
                if reads {
                    return Ok(Who::Reader);
                }
                let remedy = "use the token of token_file, which may change something";
                Err(Problem::new(StatusCode::FORBIDDEN, "this token may only read", remedy))
            }
            Some(_) => {
                let rejected = self.rejected.count_token();
                if rejected.is_power_of_two() {
                    tracing::warn!(rejected, "requests to the admin API without the right token");
                }
                let remedy = "send `Authorization: Bearer TOKEN` with the token of token_file";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "no token, or a wrong one", remedy))
            }
            None if self.in_force.asks_for_certificates() => Ok(Who::Unnamed),
            // Without a token, a name that somebody else's server resolves to this machine must not do (DNS
            // rebinding).
            None if self.by_name
                && !headers.get(header::HOST).is_some_and(|host| is_local(host.as_bytes())) =>
            {
                let remedy = "use localhost or a loopback address in the URL, or set token_file";
                Err(Problem::new(StatusCode::FORBIDDEN, "the Host is not this machine", remedy))
            }
            None => Ok(Who::Unnamed),
        }
    }
}

fn too_long() -> Problem {
    let remedy = "send less: a job, or nothing, is all that is asked for";
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long", remedy)
}
