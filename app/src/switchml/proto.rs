//! The messages of the controller, and the names of its calls (package `switchml_proto`).

/// `Sync.Broadcast`
pub(crate) const BROADCAST: &str = "/switchml_proto.Sync/Broadcast";
/// `Sync.Barrier`
pub(crate) const BARRIER: &str = "/switchml_proto.Sync/Barrier";
/// `Session.UdpSession`
pub(crate) const UDP_SESSION: &str = "/switchml_proto.Session/UdpSession";
/// `Session.RdmaSession`, which is not served.
pub(crate) const RDMA_SESSION: &str = "/switchml_proto.Session/RdmaSession";

/// A worker registers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UdpSessionRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) session_id: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) rank: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) num_workers: u32,
    /// The first byte of the address is the highest one.
    #[prost(uint64, tag = "4")]
    pub(crate) mac: u64,
    /// The first byte of the address is the highest one.
    #[prost(uint32, tag = "5")]
    pub(crate) ipv4: u32,
    /// 1 for packets of 256 bytes, 3 for 1,024.
    #[prost(int32, tag = "7")]
    pub(crate) packet_size: i32,
}

/// Where it sends to.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct UdpSessionResponse {
    #[prost(uint64, tag = "1")]
    pub(crate) session_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) mac: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) ipv4: u32,
}

/// A worker waits for the others.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BarrierRequest {
    #[prost(uint32, tag = "1")]
    pub(crate) num_workers: u32,
}

/// All are there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BarrierResponse {}

/// A worker wants the root's value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BroadcastRequest {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
    #[prost(uint32, tag = "2")]
    pub(crate) rank: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) num_workers: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) root: u32,
}

/// The root's value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BroadcastResponse {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

/// An Ethernet address as a number.
pub(crate) fn mac_to_u64(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// An Ethernet address from a number; what does not fit is left out.
pub(crate) fn mac_from_u64(mac: u64) -> [u8; 6] {
    let [_, _, a, b, c, d, e, f] = mac.to_be_bytes();
    [a, b, c, d, e, f]
}
