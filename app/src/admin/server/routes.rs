//! The routes, and what each makes of a request.

use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pascaline_seal::Secret;
use pascaline_shared::guarded::Problem;
use serde::Deserialize;
use serde_json::Value;

use super::answers::{
    CaptureRequest, Captured, Draining, EffectiveConfig, Explanation, JobDetail, Jobs, ReloadReport, Status,
};
use super::body::JsonBody;
use super::command::{Commanded, GivenKey, JobCommand};
use super::openapi;
use super::orders::{JobKey, Order, Orders};
use super::patch::Patch;
use crate::config::NewJob;

type Answer<T> = Result<Json<T>, Problem>;
type Job = Result<Path<String>, PathRejection>;

/// All routes.
pub(super) fn router(orders: Orders, body_bytes: usize) -> Router {
    Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/jobs", get(jobs).post(create))
        .route("/api/v1/jobs/{job}", get(job).patch(change).delete(delete))
        .route("/api/v1/jobs/{job}/explain", get(explain))
        .route("/api/v1/jobs/{job}/capture", post(capture))
        .route("/api/v1/jobs/{job}/command", post(command))
        .route("/api/v1/jobs/{job}/key", post(give_key))
        .route("/api/v1/config", get(config))
        .route("/api/v1/reload", post(reload))
        .route("/api/v1/drain", post(drain))
        .route("/api/v1/openapi.json", get(document))
        .fallback(|| async {
            let remedy = "GET /api/v1/openapi.json lists all paths";
            Problem::new(StatusCode::NOT_FOUND, "no such path", remedy)
        })
        .method_not_allowed_fallback(|| async {
            let remedy = "GET /api/v1/openapi.json lists what can be done here";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this cannot be done here", remedy)
        })
        .layer(DefaultBodyLimit::max(body_bytes))
        .with_state(orders)
}

fn key(job: Job) -> Result<JobKey, Problem> {
    let refuse = |rejection: PathRejection| {
        let remedy = "name a job by its number or its name";
        Problem::new(StatusCode::BAD_REQUEST, rejection.body_text(), remedy)
    };
    job.map(|Path(job)| JobKey::new(job)).map_err(refuse)
}

/// How the appliance is.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = Status)))]
pub(super) async fn status(State(orders): State<Orders>) -> Answer<Status> {
    orders.ask(Order::Status).await.map(Json)
}

/// All jobs.
#[utoipa::path(get, path = "/api/v1/jobs", responses((status = 200, body = Jobs)))]
pub(super) async fn jobs(State(orders): State<Orders>) -> Answer<Jobs> {
    orders.ask(Order::Jobs).await.map(Json)
}

/// A job, by number or name, with its terms and members.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job}", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, body = JobDetail), (status = 404, body = Problem))
)]
pub(super) async fn job(State(orders): State<Orders>, job: Job) -> Answer<JobDetail> {
    let key = key(job)?;
    orders.ask(|reply| Order::Job(key, reply)).await.map(Json)
}

/// Whether a job is aggregated here, what share of its bytes, and where it is not, why.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job}/explain", params(("job" = String, Path, description = "Number or name")),
    responses((status = 200, body = Explanation), (status = 404, body = Problem))
)]
pub(super) async fn explain(State(orders): State<Orders>, job: Job) -> Answer<Explanation> {
    let key = key(job)?;
    orders.ask(|reply| Order::Explain(key, reply)).await.map(Json)
}

/// Creates a job; the body has the keys that `[[jobs]]` has in the configuration file. It holds until the
/// next reload, which puts the file's jobs in force.
#[utoipa::path(
    post, path = "/api/v1/jobs", request_body(content = NewJob, content_type = "application/json"),
    responses(
        (status = 201, body = ReloadReport), (status = 400, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)
    )
)]
pub(super) async fn create(
    State(orders): State<Orders>,
    JsonBody(keys): JsonBody<serde_json::Map<String, Value>>,
) -> Result<(StatusCode, Json<ReloadReport>), Problem> {
    let keys = Patch::read(keys)?;
    if let Some(key) = keys.left_out() {
        let remedy = "leave out what is not to be set";
        return Err(Problem::unprocessable(format!("{key} is null"), remedy));
    }
    let mut job = toml::Table::new();
    keys.apply(&mut job);
    let report = orders.ask(|reply| Order::Create(job, reply)).await?;
    Ok((StatusCode::CREATED, Json(report)))
}

/// Changes a job: keys of `[[jobs]]` in the body are set, those that are null are left out, and so it is with
/// the keys of `parent` (RFC 7396). It holds until the next reload.
#[utoipa::path(
    patch, path = "/api/v1/jobs/{job}", params(("job" = String, Path, description = "Number or name")),
    request_body(content = NewJob, content_type = "application/json"),
    responses(
        (status = 200, body = ReloadReport), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 422, body = Problem)
    )
)]
pub(super) async fn change(
    State(orders): State<Orders>,
    job: Job,
    JsonBody(keys): JsonBody<serde_json::Map<String, Value>>,
) -> Answer<ReloadReport> {
    let (key, patch) = (key(job)?, Patch::read(keys)?);
    orders.ask(|reply| Order::Change(key, patch, reply)).await.map(Json)
}

/// Deletes a job. It holds until the next reload.
#[utoipa::path(
    delete, path = "/api/v1/jobs/{job}", params(("job" = String, Path, description = "Number or name")),
    responses(
        (status = 200, body = ReloadReport), (status = 404, body = Problem), (status = 422, body = Problem)
    )
)]
pub(super) async fn delete(State(orders): State<Orders>, job: Job) -> Answer<ReloadReport> {
    let key = key(job)?;
    orders.ask(|reply| Order::Delete(key, reply)).await.map(Json)
}

/// Captures the next packets of a job that the appliance receives, as a pcap file. Ends when it has them, or
/// when the time is up. The headers `pascaline-packets` and `pascaline-dropped` say how many it has, and how
/// many it could not keep up with.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job}/capture", params(("job" = String, Path, description = "Number or name")),
    request_body(content = CaptureRequest, content_type = "application/json"),
    responses(
        (status = 200, content_type = "application/vnd.tcpdump.pcap", body = Vec<u8>),
        (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)
    )
)]
pub(super) async fn capture(
    State(orders): State<Orders>,
    job: Job,
    JsonBody(wanted): JsonBody<CaptureRequest>,
) -> Result<Response, Problem> {
    let key = key(job)?;
    let most = (CaptureRequest::MOST_PACKETS, CaptureRequest::MOST_SECONDS);
    if !(1..=most.0).contains(&wanted.packets) || !(1..=most.1).contains(&wanted.seconds) {
        let remedy = format!("packets from 1 to {}, seconds from 1 to {}", most.0, most.1);
        return Err(Problem::unprocessable("packets or seconds out of range", remedy));
    }
    let Captured { pcap, packets, dropped } = orders.ask(|reply| Order::Capture(key, wanted, reply)).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.tcpdump.pcap".to_owned()),
        (HeaderName::from_static("pascaline-packets"), packets.to_string()),
        (HeaderName::from_static("pascaline-dropped"), dropped.to_string()),
    ];
    Ok((headers, pcap).into_response())
}

/// Commands a job, as `pascaline job` does: reset, halt, help, fbcast, seth, leave, rekey. Lcores carry out
/// help and fbcast a moment later.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job}/command", params(("job" = String, Path, description = "Number or name")),
    request_body(content = JobCommand, content_type = "application/json"),
    responses(
        (status = 200, body = Commanded), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem)
    )
)]
pub(super) async fn command(
    State(orders): State<Orders>,
    job: Job,
    JsonBody(command): JsonBody<JobCommand>,
) -> Answer<Commanded> {
    let key = key(job)?;
    orders.ask(|reply| command.order(key, reply)).await.map(Json)
}

/// Puts a key into the file of the job's `key_file`, in place of the one there, and in force as `rekey` does.
/// No log has it. Over TLS, a Unix socket or loopback only, since it is the job's whole secret.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job}/key", params(("job" = String, Path, description = "Number or name")),
    request_body(content = GivenKey, content_type = "application/json"),
    responses(
        (status = 200, body = Commanded), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 422, body = Problem)
    )
)]
pub(super) async fn give_key(
    State(orders): State<Orders>,
    job: Job,
    JsonBody(given): JsonBody<GivenKey>,
) -> Answer<Commanded> {
    let key = key(job)?;
    let secret = Secret::parse(given.key).ok_or_else(|| {
        let remedy = "send the text of the file that `pascaline job key --new FILE` makes";
        Problem::unprocessable("the key is not base64 of 32 bytes or more", remedy)
    })?;
    orders.ask(|reply| Order::GiveKey(key, secret, reply)).await.map(Json)
}

/// The configuration in force.
#[utoipa::path(get, path = "/api/v1/config", responses((status = 200, body = EffectiveConfig)))]
pub(super) async fn config(State(orders): State<Orders>) -> Answer<EffectiveConfig> {
    orders.ask(Order::Config).await.map(Json)
}

/// Reads the configuration file again, as SIGHUP does. What cannot change while the appliance runs is named;
/// a file that is refused changes nothing.
#[utoipa::path(
    post, path = "/api/v1/reload",
    responses((status = 200, body = ReloadReport), (status = 422, body = Problem))
)]
pub(super) async fn reload(State(orders): State<Orders>, _: JsonBody<Nothing>) -> Answer<ReloadReport> {
    orders.ask(Order::Reload).await.map(Json)
}

/// Has the appliance end as SIGTERM does: aggregates in progress may finish.
#[utoipa::path(post, path = "/api/v1/drain", responses((status = 202, body = Draining)))]
pub(super) async fn drain(
    State(orders): State<Orders>,
    _: JsonBody<Nothing>,
) -> Result<(StatusCode, Json<Draining>), Problem> {
    Ok((StatusCode::ACCEPTED, Json(orders.ask(Order::Drain).await?)))
}

/// This document: OpenAPI 3.1.
#[utoipa::path(get, path = "/api/v1/openapi.json", responses((status = 200, body = serde_json::Value)))]
pub(super) async fn document() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi::document())
}

/// A body that says nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
