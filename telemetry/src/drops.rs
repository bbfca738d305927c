//! Why packets are dropped. Every reason is a label of `pascaline_dropped_packets_total`.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The reason as it appears in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, in one sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// The frame ends inside a header.
    Truncated => "truncated",
    /// More than two VLAN tags.
    VlanDepth => "vlan_depth",
    /// The IP version or header length is impossible.
    IpHeader => "ip_header",
    /// IPv4 options or IPv6 extension headers on a packet for the appliance.
    IpOptions => "ip_options",
    /// A fragment for the appliance.
    IpFragment => "ip_fragment",
    /// The IPv4 header checksum, or a checksum that the NIC verified, is wrong.
    Checksum => "checksum",
    /// IP and UDP lengths disagree with each other or with the frame.
    Length => "length",
    /// Not protocol version 1.
    Version => "version",
    /// A kind that version 1 does not define.
    Kind => "kind",
    /// A kind that this appliance does not handle.
    UnhandledKind => "unhandled_kind",
    /// Reserved flag bits are set.
    Flags => "flags",
    /// An element type or operation that is undefined or has no kernel.
    DType => "dtype",
    /// The payload is empty where there must be one, or not a whole number of elements.
    PayloadLength => "payload_length",
    /// The trailer does not add up.
    Trailer => "trailer",
    /// A control body that version 1 does not define.
    Control => "control",
    /// No job has this number.
    UnknownJob => "unknown_job",
    /// The rank has not joined the job.
    NotMember => "not_member",
    /// The packet does not come from the address of its rank.
    RankSpoofed => "rank_spoofed",
    /// The packet belongs to another generation of the job.
    WrongEpoch => "wrong_epoch",
    /// The rank is not below the fan-in.
    RankOutOfRange => "rank_out_of_range",
    /// The fan-in of a new PSN is not the job's.
    FanInMismatch => "fan_in_mismatch",
    /// The fan-in differs from that of the contributions inside.
    FanInChanged => "fan_in_changed",
    /// The payload length differs from that of the contributions inside.
    LengthChanged => "length_changed",
    /// The element type or operation differs from that of the contributions inside.
    ElementChanged => "element_changed",
    /// The count field is not what the kind of packet demands.
    BadCount => "bad_count",
    /// The rank's contribution is inside already.
    Duplicate => "duplicate",
    /// All slots of the set hold other PSNs; the sender retransmits.
    Conflict => "conflict",
    /// The job holds as many slots as it may; the sender retransmits.
    Quota => "quota",
    /// The PSN is older than those in its place: it has had its result.
    Stale => "stale",
    /// Nothing is known of the PSN that was to be sent out.
    UnknownPsn => "unknown_psn",
    /// The job is suspended.
    Halted => "halted",
    /// The parameter server has no room for more.
    ServerFull => "server_full",
    /// Other lcores kept the set from being entered.
    Contention => "contention",
    /// The update does not say its reward and when it was generated.
    UpdateMissing => "update_missing",
    /// The reward of the update is infinite or not a number.
    RewardNotFinite => "reward_not_finite",
    /// The update was generated later than now, by more than clocks may differ.
    FromTheFuture => "from_the_future",
    /// The update is longer than a segment of the queue, or than the job's workers have agreed on.
    UpdateTooLong => "update_too_long",
    /// No segment of the queue was free, and no update of the cluster waited that it could be combined with.
    UpdateQueueFull => "update_queue_full",
    /// The reward of the update is too far below that of its cluster's waiting one.
    LowReward => "low_reward",
    /// A newer update of the same worker waited already.
    Outdated => "outdated",
    /// The packet has no room for the sum of 16-bit floats, which is made in 32 bits.
    NoRoom => "no_room",
    /// The lcore that owns the queue of updates took no more.
    HandoffFull => "handoff_full",
    /// The job's parameter server has not registered.
    NoServer => "no_server",
    /// The control plane had no room for the request.
    ControlFull => "control_full",
    /// Not for the appliance, and the port has no peer to forward it to.
    NotForUs => "not_for_us",
    /// For the appliance's address, but nothing that it answers.
    NoService => "no_service",
    /// The peer port's transmit queue was full.
    TransmitFull => "transmit_full",
}

#[cfg(test)]
mod tests;
