//! Under which names pages may be asked for, and from which pages: a browser must not be made to read them
//! for somebody whose name has been pointed at this machine (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};

/// Names beside addresses, `localhost` and the machine's own.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// These, and what the machine is called.
    pub fn new(more: &[String]) -> Self {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let all = more.iter().map(String::as_str).chain(["localhost", own.trim()]);
        Self(all.map(str::to_owned).collect())
    }

    /// Has every request checked.
    pub(super) fn before(self, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(Arc::new(self), check))
    }

    /// What is wrong with a request, if anything.
    fn objection(&self, headers: &HeaderMap) -> Option<&'static str> {
        let text =
            |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or(""));
        // No browser leaves it out.
        let host = text(header::HOST)?;
        let name = without_port(host);
        let named = |known: &String| known.eq_ignore_ascii_case(name.trim_end_matches('.'));
        if address(name).is_none() && !self.0.iter().any(named) {
            return Some(
                "the Host is no name of this machine\n  remedy: use an address or localhost, or add the name \
                 to `hosts` in [telemetry]\n",
            );
        }
        let origin = text(header::ORIGIN)?;
        let same = origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host));
        (!same).then_some("requests of other web pages are refused\n")
    }
}

async fn check(State(names): State<Arc<Names>>, request: Request, next: Next) -> Response {
    match names.objection(request.headers()) {
        Some(what) => (StatusCode::FORBIDDEN, what).into_response(),
        None => next.run(request).await,
    }
}

/// Whether the value of a `Host` header names the loopback interface.
pub fn is_local(host: &[u8]) -> bool {
    let Ok(host) = core::str::from_utf8(host) else { return false };
    let name = without_port(host);
    name.eq_ignore_ascii_case("localhost") || address(name).is_some_and(|address| address.is_loopback())
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    name.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests;
