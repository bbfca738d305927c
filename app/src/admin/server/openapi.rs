//! The OpenAPI document, from the handlers themselves.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi as _};

use super::routes;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Pascaline admin API",
        description = "Operating an in-network aggregator. Every error is a Problem; beside those of each \
                       operation: 401 without the token, where one is asked for; 403 for web pages; 408, 413 \
                       and 431 for requests that are too slow or too long; \
                       415 for a body that is not JSON; 503 while too many requests wait."
    ),
    paths(
        routes::status,
        routes::jobs,
        routes::create,
        routes::job,
        routes::change,
        routes::delete,
        routes::explain,
        routes::capture,
        routes::command,
        routes::give_key,
        routes::config,
        routes::reload,
        routes::drain,
        routes::document,
    ),
    modifiers(&Bearer),
    security((), ("bearer" = []))
)]
struct Document;

/// The token, which is asked for where the configuration has one.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

/// The document.
pub(super) fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
