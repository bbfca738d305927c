//! Who is connected. When all places are taken, who has waited longest without asking for anything gives way:
//! half a request keeps nobody out.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, Response, header};
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// All who are connected, by number in the order in which they came.
#[derive(Debug)]
pub(super) struct Guests {
    places: usize,
    /// How long an answer may take before its reader gives way to others.
    patience: Duration,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    guests: BTreeMap<u64, Seat>,
}

#[derive(Debug)]
struct Seat {
    doing: Doing,
    since: Instant,
    leave: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// No request, or not all of it.
    Waiting,
    /// An answer is made or read.
    Answered,
    /// A stream without end; whoever makes them bounds their number.
    Streams,
}

impl Guests {
    pub(super) fn new(places: usize, patience: Duration) -> Arc<Self> {
        Arc::new(Self { places, patience, inside: Mutex::default() })
    }

    /// Lets somebody in, and tells whether somebody else had to leave for it. None if nobody gives way.
    pub(super) fn enter(self: &Arc<Self>) -> Option<(Guest, bool)> {
        let mut inside = self.lock();
        let full = inside.guests.len() >= self.places;
        if full {
            let number = self.gives_way(&inside)?;
            let seat = inside.guests.remove(&number)?;
            seat.leave.notify_one();
        }
        let number = inside.next;
        inside.next += 1;
        let leave = Arc::new(Notify::new());
        let seat = Seat { doing: Doing::Waiting, since: Instant::now(), leave: Arc::clone(&leave) };
        inside.guests.insert(number, seat);
        Some((Guest { number, leave, of: Arc::clone(self) }, full))
    }

    fn gives_way(&self, inside: &Inside) -> Option<u64> {
        let oldest = |doing: Doing| {
            let those = inside.guests.iter().filter(|(_, seat)| seat.doing == doing);
            those.min_by_key(|(_, seat)| seat.since)
        };
        let slow = || oldest(Doing::Answered).filter(|(_, seat)| seat.since.elapsed() > self.patience);
        oldest(Doing::Waiting).or_else(slow).map(|(&number, _)| number)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place; dropping it leaves it.
#[derive(Debug)]
pub(super) struct Guest {
    number: u64,
    leave: Arc<Notify>,
    of: Arc<Guests>,
}

impl Guest {
    /// Done once the place is somebody else's.
    pub(super) fn leaving(&self) -> impl Future<Output = ()> + Send + use<> {
        let leave = Arc::clone(&self.leave);
        async move { leave.notified().await }
    }

    fn does(&self, doing: Doing) {
        if let Some(seat) = self.of.lock().guests.get_mut(&self.number) {
            (seat.doing, seat.since) = (doing, Instant::now());
        }
    }

    /// A request is here.
    pub(super) fn asks(self: &Arc<Self>) -> Asking {
        self.does(Doing::Answered);
        Asking(Arc::clone(self))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.of.lock().guests.remove(&self.number);
    }
}

/// A request that is being answered, until all of the answer is sent.
#[derive(Debug)]
pub(super) struct Asking(Arc<Guest>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.does(Doing::Waiting);
    }
}

impl Asking {
    /// The answer, with which the asking ends.
    pub(super) fn with(self, response: Response<Body>) -> Response<Body> {
        let stream = HeaderValue::from_static("text/event-stream");
        if response.headers().get(header::CONTENT_TYPE) == Some(&stream) {
            self.0.does(Doing::Streams);
        }
        response.map(|body| Body::new(Answer { body, _asking: self }))
    }
}

struct Answer {
    body: Body,
    _asking: Asking,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
