//! The OpenAPI document, from the handlers themselves.

use utoipa::OpenApi as _;

use super::routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Pascaline admin API", description = "Operating an in-network aggregator."),
    paths(
        routes::status,
        routes::jobs,
        routes::create,
        routes::job,
        routes::change,
        routes::delete,
        routes::explain,
        routes::capture,
        routes::config,
        routes::reload,
        routes::drain,
        routes::document,
    )
)]
struct Document;

/// The document.
pub(super) fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
