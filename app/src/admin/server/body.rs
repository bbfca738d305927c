//! Bodies of requests.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use pascaline_shared::guarded::Problem;
use serde::de::DeserializeOwned;

/// A JSON body. An empty one is an empty object.
#[derive(Debug)]
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let remedy = "send less: a job, or nothing, is all that is asked for";
            Problem::new(rejection.status(), rejection.body_text(), remedy)
        })?;
        let json = |kind: &[u8]| kind.to_ascii_lowercase().starts_with(b"application/json");
        if !bytes.is_empty() && !kind.is_some_and(|kind| json(kind.as_bytes())) {
            let remedy = "send JSON with `Content-Type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not JSON", remedy));
        }
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(Self).map_err(|error| {
            let remedy = "GET /api/v1/openapi.json says what is expected";
            Problem::new(StatusCode::BAD_REQUEST, format!("the body: {error}"), remedy)
        })
    }
}
