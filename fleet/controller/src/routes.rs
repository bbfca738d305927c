//! The controller's HTTP server: an API for workers and operators, and a page for people.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use utoipa::{OpenApi as _, ToSchema};

use crate::core::{Core, Placement, View};
use crate::picture;

const PAGE: &str = include_str!("page.html");

/// A core that threads share, and its clock.
#[derive(Debug)]
pub struct Shared {
    core: Mutex<Core>,
    zero: Instant,
}

impl Shared {
    /// `zero` is when the core's clock began.
    pub fn new(core: Core, zero: Instant) -> Arc<Self> {
        Arc::new(Self { core: Mutex::new(core), zero })
    }

    /// The core's time.
    pub fn now(&self) -> Duration {
        self.zero.elapsed()
    }

    /// The core, locked.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An error, with its remedy.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    #[serde(skip)]
    status: u16,
    /// The error, in plain words.
    error: String,
    /// The remedy.
    remedy: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self)).into_response()
    }
}

/// The API. The server checks the token.
pub fn api(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/jobs/{job}/ranks/{rank}", get(placement))
        .route("/api/v1/openapi.json", get(document))
        .fallback(nothing)
        .with_state(shared)
}

/// The page and its picture: read only, without a token.
pub fn page(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/topology.svg", get(topology))
        .fallback(nothing)
        .with_state(shared)
}

/// The state: appliances and their health, jobs and their trees, recent moves.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = View)))]
async fn status(State(shared): State<Arc<Shared>>) -> Json<View> {
    Json(shared.core().view(shared.now()))
}

/// The place that a rank of a job sends to. 503 while its appliance does not have its part: ask again.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job}/ranks/{rank}",
    params(
        ("job" = u16, Path, description = "Number"), ("rank" = u16, Path, description = "Of the whole job")
    ),
    responses(
        (status = 200, body = Placement), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 503, body = Problem)
    )
)]
async fn placement(
    State(shared): State<Arc<Shared>>,
    at: Result<Path<(u16, u16)>, PathRejection>,
) -> Result<Json<Placement>, Problem> {
    let remedy = "name job and rank by numbers".to_owned();
    let refuse = |rejection: PathRejection| Problem { status: 400, error: rejection.body_text(), remedy };
    let Path((job, rank)) = at.map_err(refuse)?;
    let status = |again| if again { 503 } else { 404 };
    let refuse = |(error, remedy, again)| Problem { status: status(again), error, remedy };
    shared.core().placement(job, rank).map(Json).map_err(refuse)
}

async fn topology(State(shared): State<Arc<Shared>>) -> Response {
    let picture = picture::svg(&shared.core(), shared.now());
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-store")], picture).into_response()
}

async fn nothing() -> Problem {
    let remedy = "GET /api/v1/openapi.json lists all paths".to_owned();
    Problem { status: 404, error: "no such path".to_owned(), remedy }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Pascaline controller API",
        description = "Where workers send to, and how the network is. Every error is a Problem; 401 without \
                       the token, where one is asked for."
    ),
    paths(status, placement, document)
)]
struct Document;

/// This document: OpenAPI 3.1.
#[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200, body = serde_json::Value)))]
async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

#[cfg(test)]
mod tests;
