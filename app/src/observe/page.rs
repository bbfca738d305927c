//! `/`, `/api/v1/snapshot` and `/live`.
//!
//! A stream carries the latest snapshot, never a queue of old ones: who reads slowly misses some. Who does
//! not read at all is cut off once nothing has moved for ten seconds (`http/idle.rs`), and there are only so
//! many streams.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::snapshot::{Inputs, Sampler};

/// Between two snapshots.
const SAMPLE: Duration = Duration::from_millis(500);
/// Streams at the same time.
const STREAMS: usize = 32;

/// Nothing but what the appliance itself serves is loaded, and nothing in the page is run that is not a file
/// of it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The files of the page: path, type, text.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/main.js", "text/javascript; charset=utf-8", include_str!("page/main.js")),
    ("/page/draw.js", "text/javascript; charset=utf-8", include_str!("page/draw.js")),
    ("/page/format.js", "text/javascript; charset=utf-8", include_str!("page/format.js")),
    ("/page/jobs.js", "text/javascript; charset=utf-8", include_str!("page/jobs.js")),
    ("/page/tables.js", "text/javascript; charset=utf-8", include_str!("page/tables.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Where counters come from.
type Read = Box<dyn Fn() -> Inputs + Send + Sync>;

/// Makes snapshots.
pub(crate) struct Live {
    read: Read,
    sampler: Sampler,
}

#[derive(Clone)]
struct Viewers {
    latest: watch::Receiver<Arc<str>>,
    streams: Arc<Semaphore>,
}

impl Live {
    /// Snapshots by this sampler of what `read` finds.
    pub(crate) fn new(sampler: Sampler, read: impl Fn() -> Inputs + Send + Sync + 'static) -> Self {
        Self { read: Box::new(read), sampler }
    }

    /// The pages, and the task that keeps them alive until it is dropped.
    pub(crate) fn start(self) -> (Router, impl Future<Output = Infallible> + Send) {
        let Self { read, mut sampler } = self;
        let mut sample = move || -> Arc<str> {
            // Cannot fail: all keys are strings.
            serde_json::to_string(&sampler.take(read())).unwrap_or_default().into()
        };
        let (sender, latest) = watch::channel(sample());
        let task = async move {
            let mut ticks = tokio::time::interval(SAMPLE);
            // Late is better than twice: a rate over no time is none.
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                sender.send_replace(sample());
            }
        };
        (router(latest), task)
    }
}

fn router(latest: watch::Receiver<Arc<str>>) -> Router {
    let mut router = Router::new().route("/api/v1/snapshot", get(snapshot)).route("/live", get(live));
    for (path, kind, text) in FILES {
        let file = move || async move { ([(header::CONTENT_TYPE, kind)], text) };
        router = router.route(path, get(file));
    }
    let viewers = Viewers { latest, streams: Arc::new(Semaphore::new(STREAMS)) };
    router.with_state(viewers).layer(axum::middleware::map_response(guarded))
}

async fn guarded(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // The files belong to this very program; a newer one may have others.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    response.headers_mut().extend(HEADERS);
    response
}

async fn snapshot(State(viewers): State<Viewers>) -> Response {
    let latest = Arc::clone(&viewers.latest.borrow());
    ([(header::CONTENT_TYPE, "application/json")], latest.to_string()).into_response()
}

async fn live(State(viewers): State<Viewers>) -> Response {
    let Ok(permit) = Arc::clone(&viewers.streams).try_acquire_owned() else {
        let text = "too many viewers at the moment; /api/v1/snapshot answers everybody\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response();
    };
    let mut latest = viewers.latest;
    // The first event comes at once.
    latest.mark_changed();
    Sse::new(stream::unfold((latest, permit), next)).into_response()
}

type Stream = (watch::Receiver<Arc<str>>, OwnedSemaphorePermit);

/// The next snapshot; none once no more are made.
async fn next((mut latest, permit): Stream) -> Option<(Result<Event, Infallible>, Stream)> {
    latest.changed().await.ok()?;
    let event = Event::default().data(&*Arc::clone(&latest.borrow_and_update()));
    Some((Ok(event), (latest, permit)))
}
