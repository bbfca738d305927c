//! What is answered where something is wrong.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// What is wrong, and what to do about it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Problem {
    /// Of HTTP.
    #[serde(skip)]
    pub status: u16,
    /// What is wrong, in plain words.
    #[schema(example = "no job 7")]
    pub error: String,
    /// What to do about it.
    #[schema(example = "GET /api/v1/jobs lists the jobs")]
    pub remedy: String,
    /// Where in the configuration file, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<FilePlace>,
}

/// A place in the configuration file.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct FilePlace {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Problem {
    /// What is wrong, and what to do about it.
    pub fn new(status: StatusCode, error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: status.as_u16(), error: error.into(), remedy: remedy.into(), place: None }
    }

    /// What the request asks for is not possible.
    pub fn unprocessable(error: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, error, remedy)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
