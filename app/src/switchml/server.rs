//! The controllers' gRPC services, on a thread of their own.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pascaline_pipelines::membership::Registration;
use pascaline_wire::frame::Mac;
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tracing::{info, warn};

use super::Notices;
use super::meeting::{Meeting, Refused, Wait};
use super::proto::{
    BARRIER, BROADCAST, BarrierRequest, BarrierResponse, BroadcastRequest, BroadcastResponse, RDMA_SESSION,
    UDP_SESSION, UdpSessionRequest, UdpSessionResponse, mac_from_u64, mac_to_u64,
};
use crate::admin::server::{Order, Orders};

/// Bytes of a request: each has a few numbers.
const LONGEST: usize = 256;
/// Requests of one connection at a time. A client has one.
const STREAMS: u32 = 4;
/// For how long a worker waits for the others before the log names them.
const PATIENCE: Duration = Duration::from_secs(10);
/// Silence of a connection before its host is asked whether it is there, the time between two such
/// questions, and how many may remain without an answer: a worker on a dead host must not count as waiting.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);

/// All controllers; dropped, they end.
#[derive(Debug)]
pub(crate) struct Controllers {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Controllers {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(JoinHandle::join);
    }
}

/// Serves the controllers of these jobs.
///
/// # Errors
/// No thread could be started.
pub(crate) fn serve(listeners: Vec<(u16, TcpListener)>, orders: &Orders) -> io::Result<Controllers> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let orders = orders.clone();
    let thread = std::thread::Builder::new().name("switchml".to_owned()).spawn(move || {
        runtime.block_on(async move {
            for (job, listener) in listeners {
                tokio::spawn(one(job, listener, orders.clone()));
            }
            let _ = stopped.await;
        });
    })?;
    Ok(Controllers { stop: Some(stop), thread: Some(thread) })
}

async fn one(job: u16, listener: TcpListener, orders: Orders) {
    let incoming = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let began = Instant::now();
    let service = Job { job, orders, meeting: Arc::default(), notices: Arc::default(), began };
    let served = match incoming {
        Ok(incoming) => {
            let server = Server::builder().max_concurrent_streams(STREAMS);
            let mut server = server.concurrency_limit_per_connection(STREAMS as usize);
            server
                .add_service(Sync(service.clone()))
                .add_service(Session(service))
                .serve_with_incoming(
                    TcpIncoming::from(incoming)
                        .with_keepalive(Some(KEEPALIVE.0))
                        .with_keepalive_interval(Some(KEEPALIVE.1))
                        .with_keepalive_retries(Some(KEEPALIVE.2)),
                )
                .await
                .map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = served {
        warn!(job, error, "the controller of SwitchML's clients has ended");
    }
}

/// One job's controller.
#[derive(Debug, Clone)]
struct Job {
    job: u16,
    orders: Orders,
    meeting: Arc<Mutex<Meeting>>,
    /// What has been logged. Refused registrations are logged where they are decided on.
    notices: Arc<Mutex<Notices<Notice>>>,
    began: Instant,
}

/// A kind of what the log gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    Refused(core::mem::Discriminant<Refused>),
    Waits,
}

/// Locks state that every panic leaves intact.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn note(&self, kind: Notice) -> Option<u64> {
        lock(&self.notices).count(self.began.elapsed(), kind)
    }

    /// Lets a worker wait for the others, of whom there are as many as the job has now.
    async fn wait<T>(
        &self,
        how: impl FnOnce(&mut Meeting, u16) -> Result<Wait<T>, Refused>,
    ) -> Result<T, Status> {
        let fan_in = self.orders.ask(|reply| Order::Workers(self.job, reply)).await.map_err(|problem| {
            Status::failed_precondition(format!("{}: {}", problem.error, problem.remedy))
        })?;
        let wait = how(&mut lock(&self.meeting), fan_in);
        let mut wait = wait.map_err(|why| {
            if let Some(times) = self.note(Notice::Refused(core::mem::discriminant(&why))) {
                warn!(job = self.job, error = %why, times, "a worker is refused at the controller");
            }
            match why {
                Refused::Crowded => Status::resource_exhausted(why.to_string()),
                Refused::Workers { .. } | Refused::Rank { .. } => Status::invalid_argument(why.to_string()),
            }
        })?;
        let over = |_| Status::aborted("rank 0 has begun another run: start this worker again");
        loop {
            if let Ok(done) = tokio::time::timeout(PATIENCE, &mut wait).await {
                return done.map_err(over);
            }
            self.tell_waiting(fan_in);
        }
    }

    /// Logs the ranks that workers wait for.
    fn tell_waiting(&self, fan_in: u16) {
        let waiting = lock(&self.meeting).waiting();
        if self.note(Notice::Waits).is_some() {
            let missing: Vec<_> = (0..fan_in.into()).filter(|rank| !waiting.contains(rank)).collect();
            warn!(job = self.job, ?waiting, ?missing, "workers wait at the controller for missing ranks");
        }
    }

    async fn register(&self, asked: UdpSessionRequest) -> Result<UdpSessionResponse, Status> {
        let who = Registration {
            rank: asked.rank,
            workers: asked.num_workers,
            mac: Mac(mac_from_u64(asked.mac)),
            address: asked.ipv4.to_be_bytes(),
            size: u32::try_from(asked.packet_size).unwrap_or(u32::MAX),
        };
        let told = self.orders.ask(|reply| Order::Register(self.job, who, reply)).await;
        let told = told.map_err(|problem| {
            Status::failed_precondition(format!("{}: {}", problem.error, problem.remedy))
        })?;
        let address = core::net::Ipv4Addr::from(who.address);
        info!(job = self.job, rank = who.rank, mac = %who.mac, %address, "registered");
        Ok(UdpSessionResponse {
            session_id: asked.session_id,
            mac: mac_to_u64(told.mac.0),
            ipv4: u32::from_be_bytes(told.address),
        })
    }
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

macro_rules! call {
    ($name:ident, $asked:ty => $answer:ty, |$job:ident, $peer:pat, $request:ident| $does:expr) => {
        struct $name(Job);

        impl UnaryService<$asked> for $name {
            type Response = $answer;
            type Future = Answer<$answer>;

            fn call(&mut self, request: Request<$asked>) -> Self::Future {
                let ($job, $peer, $request) = (self.0.clone(), request.remote_addr(), request.into_inner());
                Box::pin(async move { $does.map(Response::new) })
            }
        }
    };
}

call!(Broadcast, BroadcastRequest => BroadcastResponse, |job, peer, asked| {
    let BroadcastRequest { value, rank, num_workers, root } = asked;
    let told = job
        .wait(|meeting, fan_in| meeting.broadcast(peer, (rank, root), (num_workers, fan_in), value))
        .await;
    told.map(|value| BroadcastResponse { value })
});
call!(Barrier, BarrierRequest => BarrierResponse, |job, peer, asked| {
    let done = job.wait(|meeting, fan_in| meeting.barrier(peer, asked.num_workers, fan_in)).await;
    done.map(|()| BarrierResponse {})
});
call!(UdpSession, UdpSessionRequest => UdpSessionResponse, |job, _, asked| job.register(asked).await);

type Served = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

async fn unary<S, A, B>(service: S, request: http::Request<Body>) -> Result<http::Response<Body>, Infallible>
where
    S: UnaryService<A, Response = B>,
    A: prost::Message + Default + Send + 'static,
    B: prost::Message + Default + Send + 'static,
{
    let codec = ProstCodec::<B, A>::default();
    Ok(Grpc::new(codec).max_decoding_message_size(LONGEST).unary(service, request).await)
}

fn unknown(what: &'static str) -> Served {
    Box::pin(async move { Ok(Status::new(Code::Unimplemented, what).into_http()) })
}

macro_rules! services {
    ($($name:ident $full:literal { $($path:path => $call:ident),+ })+) => {$(
        #[derive(Debug, Clone)]
        struct $name(Job);

        impl NamedService for $name {
            const NAME: &'static str = $full;
        }

        impl Service<http::Request<Body>> for $name {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = Served;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> Served {
                match request.uri().path() {
                    $($path => Box::pin(unary($call(self.0.clone()), request)),)+
                    RDMA_SESSION => unknown("RDMA is not served: choose SwitchML's dpdk backend"),
                    _ => unknown("no such call"),
                }
            }
        }
    )+};
}

services! {
    Sync "switchml_proto.Sync" { BROADCAST => Broadcast, BARRIER => Barrier }
    Session "switchml_proto.Session" { UDP_SESSION => UdpSession }
}

#[cfg(test)]
mod tests;
