//! The client's side of the controller.

use core::time::Duration;

use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::proto::{
    BARRIER, BROADCAST, BarrierRequest, BarrierResponse, BroadcastRequest, BroadcastResponse, UDP_SESSION,
    UdpSessionRequest, UdpSessionResponse,
};

/// Why the controller did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody answers.
    #[error(
        "no controller at {at}: {why}\n  remedy: is the appliance running, and this the job's `controller`?"
    )]
    Unreachable { at: String, why: String },
    /// It has refused.
    #[error("the controller refuses: {0}")]
    Refused(String),
    /// Others are missing.
    #[error(
        "not all {workers} workers have come within {patience:?}\n  remedy: start all of them, each with a \
            --rank of its own, or give a longer --join-deadline"
    )]
    Late { workers: u32, patience: Duration },
}

impl Error {
    fn gone(at: &str, why: &tonic::transport::Error) -> Self {
        let why = core::error::Error::source(why).map_or_else(|| why.to_string(), ToString::to_string);
        Self::Unreachable { at: at.to_owned(), why }
    }

    /// What an answer says that is no good one. A connection that breaks is no refusal.
    fn of(at: &str, status: &Status) -> Self {
        if core::error::Error::source(status).is_some() || status.code() == Code::Unavailable {
            return Self::Unreachable { at: at.to_owned(), why: status.message().to_owned() };
        }
        Self::Refused(status.message().to_owned())
    }
}

/// A connection to a controller.
#[derive(Debug)]
pub(crate) struct Controller {
    grpc: Grpc<Channel>,
    at: String,
    rank: u32,
    workers: u32,
    patience: Duration,
    /// When it is over.
    deadline: Instant,
}

impl Controller {
    /// Connects. All calls together last until all workers are there, at most `patience`.
    pub(crate) async fn connect(
        at: &str,
        rank: u32,
        workers: u32,
        patience: Duration,
    ) -> Result<Self, Error> {
        // The clock does not go on for ever.
        let patience = patience.min(Duration::from_secs(30 * 24 * 3600));
        let deadline = Instant::now() + patience;
        let unreachable = |why: tonic::transport::Error| Error::gone(at, &why);
        let endpoint = Endpoint::from_shared(format!("http://{at}")).map_err(unreachable)?;
        let channel = endpoint.connect_timeout(patience.min(Duration::from_secs(5)));
        let channel = channel.connect().await.map_err(unreachable)?;
        Ok(Self { grpc: Grpc::new(channel), at: at.to_owned(), rank, workers, patience, deadline })
    }

    /// What each client does before it sends anything: agrees on a number, registers, and waits for all.
    pub(crate) async fn begin(
        &mut self,
        number: u64,
        mac: u64,
        ipv4: u32,
        packet_size: i32,
    ) -> Result<UdpSessionResponse, Error> {
        let (rank, num_workers) = (self.rank, self.workers);
        let asked = BroadcastRequest { value: number, rank, num_workers, root: 0 };
        let BroadcastResponse { value: session_id } = self.call(BROADCAST, asked).await?;
        let asked = UdpSessionRequest { session_id, rank, num_workers, mac, ipv4, packet_size };
        if rank != 0 {
            self.barrier().await?;
        }
        let told = self.call(UDP_SESSION, asked).await?;
        if rank == 0 {
            self.barrier().await?;
        }
        self.barrier().await?;
        Ok(told)
    }

    /// Waits for all workers.
    pub(crate) async fn barrier(&mut self) -> Result<(), Error> {
        let BarrierResponse {} = self.call(BARRIER, BarrierRequest { num_workers: self.workers }).await?;
        Ok(())
    }

    async fn call<A, B>(&mut self, path: &'static str, asked: A) -> Result<B, Error>
    where
        A: prost::Message + Default + Send + Sync + 'static,
        B: prost::Message + Default + Send + Sync + 'static,
    {
        let late = Error::Late { workers: self.workers, patience: self.patience };
        let answer = async {
            let gone = |error: tonic::transport::Error| Error::gone(&self.at, &error);
            self.grpc.ready().await.map_err(gone)?;
            let codec = ProstCodec::<A, B>::default();
            let answer = self.grpc.unary(Request::new(asked), PathAndQuery::from_static(path), codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| Error::of(&self.at, &status))
        };
        tokio::time::timeout_at(self.deadline, answer).await.unwrap_or(Err(late))
    }
}
