//! The client's side of the controller.

use core::time::Duration;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::proto::{
    BARRIER, BROADCAST, BarrierRequest, BarrierResponse, BroadcastRequest, BroadcastResponse, UDP_SESSION,
    UdpSessionRequest, UdpSessionResponse,
};

/// Why the controller did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody answers.
    #[error("no controller at {at}: {why}")]
    Unreachable { at: String, why: String },
    /// It has refused.
    #[error("the controller refuses: {0}")]
    Refused(String),
}

/// A connection to a controller.
#[derive(Debug)]
pub(crate) struct Controller {
    grpc: Grpc<Channel>,
    rank: u32,
    workers: u32,
}

impl Controller {
    /// Connects. Calls last until all workers are there, at most `patience`.
    pub(crate) async fn connect(
        at: &str,
        rank: u32,
        workers: u32,
        patience: Duration,
    ) -> Result<Self, Error> {
        let unreachable = |why: tonic::transport::Error| Error::Unreachable {
            at: at.to_owned(),
            why: core::error::Error::source(&why).map_or_else(|| why.to_string(), ToString::to_string),
        };
        let endpoint = Endpoint::from_shared(format!("http://{at}")).map_err(unreachable)?;
        let channel = endpoint.connect_timeout(patience.min(Duration::from_secs(5))).timeout(patience);
        let channel = channel.connect().await.map_err(unreachable)?;
        Ok(Self { grpc: Grpc::new(channel), rank, workers })
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
        let refused = |status: Status| Error::Refused(status.message().to_owned());
        self.grpc.ready().await.map_err(|error| Error::Refused(error.to_string()))?;
        let codec = ProstCodec::<A, B>::default();
        let answer = self.grpc.unary(Request::new(asked), PathAndQuery::from_static(path), codec).await;
        answer.map(tonic::Response::into_inner).map_err(refused)
    }
}
