//! The API, served as the shared guard serves any.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pascaline_shared::guarded::{BODY, InForce, Rejected, behind_guard};
use pascaline_shared::http::server::{Listener, Server};

use super::answers::CaptureRequest;
use super::orders::Orders;
use super::routes::router;

/// A capture may take so much longer than any other request.
const CAPTURE_LONGEST: Duration = Duration::from_secs(CaptureRequest::MOST_SECONDS as u64);

/// Serves the API until the server is dropped.
///
/// # Errors
/// No thread could be started.
pub(crate) fn serve(
    listener: Listener,
    in_force: Arc<InForce>,
    orders: Orders,
    rejected: Arc<Rejected>,
) -> io::Result<Server> {
    let longer = |path: &str| if path.ends_with("/capture") { CAPTURE_LONGEST } else { Duration::ZERO };
    behind_guard("admin", listener, in_force, router(orders, BODY), rejected, longer)
}
