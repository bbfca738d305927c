//! Why packets are dropped. Every reason is a label of `pascaline_dropped_packets_total`;
//! docs/drop-reasons.md is the same list.

use crate::named::named;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal, $remedy:literal;)+) => {
        named! {
            /// Why a packet was dropped.
            DropReason, "dropped_";
            $($(#[doc = $doc])+ $variant => $name,)+
        }

        impl DropReason {
            /// What an operator can do about it.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)+ }
            }
        }
    };
}

reasons! {
    /// The frame ends inside a header.
    Truncated => "truncated", "Find the sender of broken frames: capture the port.";
    /// More than two VLAN tags.
    VlanDepth => "vlan_depth", "Strip tags on the switch; the appliance reads two.";
    /// The IP version or header length is impossible.
    IpHeader => "ip_header", "Find the sender of broken frames: capture the port.";
    /// IPv4 options or IPv6 extension headers on a packet for the appliance.
    IpOptions => "ip_options", "Send without options; workers of this project do.";
    /// A fragment for the appliance.
    IpFragment => "ip_fragment", "Lower the workers' payload or raise the MTU of every link.";
    /// The IPv4 header checksum, or a checksum that the NIC verified, is wrong.
    Checksum => "checksum",
        "A few come from bad cables. All of them: turn off checksum offload on virtual links.";
    /// IP and UDP lengths disagree with each other or with the frame.
    Length => "length", "Look for a middlebox that pads or cuts frames.";
    /// The IP packet is longer than the port's MTU: several, which a kernel has joined or not yet cut.
    OverMtu => "over_mtu",
        "Turn segmentation offloads off at the port's interface and its peer (ethtool -K), use a net_kernel \
         port, which understands them, or raise the port's mtu.";
    /// Not protocol version 2.
    Version => "version", "Something else sends to the port, or a worker speaks another version.";
    /// A kind that version 2 does not define.
    Kind => "kind", "Something else sends to the port, or a worker speaks another version.";
    /// A kind that this appliance or this job's mode does not handle.
    UnhandledKind => "unhandled_kind", "Match the worker's mode with the job's: synchronous or asynchronous.";
    /// Reserved flag bits are set.
    Flags => "flags", "The worker speaks another version of the protocol.";
    /// An element type or operation that is undefined or has no kernel.
    DType => "dtype", "Use a data type and operation of docs/protocol.md, section 7.";
    /// The payload is empty where there must be one, or not a whole number of elements.
    PayloadLength => "payload_length",
        "Let the worker send whole elements, at most the payload agreed on when it joined.";
    /// The trailer does not add up.
    Trailer => "trailer", "The worker builds wrong trailers: docs/protocol.md, section 8.";
    /// A control body that version 2 does not define.
    Control => "control", "The worker speaks another version of the protocol.";
    /// No job has this number.
    UnknownJob => "unknown_job", "Add the job to the configuration, or admit jobs that workers form.";
    /// The rank has not joined the job.
    NotMember => "not_member",
        "Normal after a restart: workers join again. Else look at why their Joins fail.";
    /// The packet does not come from the address of its rank.
    RankSpoofed => "rank_spoofed",
        "Two workers use the same rank, or a worker changed its address without a Join.";
    /// The packet belongs to another generation of the job.
    WrongEpoch => "wrong_epoch", "Normal while a job forms anew; else stop workers of an old run.";
    /// The PSN is not among those that the job's ranks can have under way.
    OutsideWindow => "outside_window",
        "A few come late, after losses. Many: a worker breaks the spread rule, or somebody forges packets.";
    /// A rank asks for more results, or passes on more, than its limit lets it.
    TooOften => "too_often",
        "Normal for a moment after a restart. Else a worker is broken, or somebody forges its packets.";
    /// The rank is not below the fan-in.
    RankOutOfRange => "rank_out_of_range", "Give workers ranks from 0 to fan-in less 1.";
    /// The fan-in of a new PSN is not the job's.
    FanInMismatch => "fan_in_mismatch", "Start all workers with the job's fan-in.";
    /// The fan-in differs from that of the contributions inside.
    FanInChanged => "fan_in_changed", "Start all workers with the same fan-in.";
    /// The payload length differs from that of the contributions inside.
    LengthChanged => "length_changed", "Start all workers with the same payload and tensor sizes.";
    /// The element type or operation differs from that of the contributions inside.
    ElementChanged => "element_changed", "Start all workers with the same data type and operation.";
    /// The last packet of its rank's operation, and not of the other ranks', or the other way round.
    OperationChanged => "operation_changed",
        "Let all ranks make the same calls, in the same order: the workers' error says which differ.";
    /// The count field is not what the kind of packet demands.
    BadCount => "bad_count", "The worker speaks another version of the protocol.";
    /// The rank's contribution is inside already; an update has come before.
    Duplicate => "duplicate",
        "Normal with losses: a retransmission came too early. Many: look at loss and round-trip time. \
         Updates are never sent again: the network repeats packets.";
    /// All slots of the set hold other PSNs; the sender retransmits.
    Conflict => "conflict", "Add slots, lower the job's window, or configure a parameter server.";
    /// The job holds all the slots of its quota; the sender retransmits.
    Quota => "quota", "Raise the job's quota or lower its window.";
    /// All slots of the set hold other PSNs, and of those the job has its share; the sender retransmits.
    SlotShare => "slot_share",
        "Normal while other jobs use their share. Raise the job's `share`, add slots, or lower its window.";
    /// The job sends more than its share of what comes to nothing: beside others without end, or while the
    /// lcore has more to do than it can.
    PacketShare => "packet_share",
        "Look why its PSNs do not complete. Give the appliance more lcores, or the job a larger `share`.";
    /// The job has sent the parameter server more than its share of what comes to nothing.
    ServerShare => "server_share",
        "Look why the job's PSNs do not complete, or raise the job's `share`.";
    /// The PSN is older than those in its place: it has had its result.
    Stale => "stale", "Normal with losses; the sender gets the result from another rank.";
    /// The pool has nothing of the PSN that a rank wants to be sent out.
    UnknownPsn => "unknown_psn", "Normal: the partial was sent or evicted a moment before.";
    /// The job is suspended.
    Halted => "halted", "Resume the job: a rank or an operator has suspended it.";
    /// The parameter server has no room for more.
    ServerFull => "server_full", "Give the server a core of its own, or add slots so that less is spilled.";
    /// Too many packets wait for the owner of the set.
    Contention => "contention",
        "Spread PSNs over UDP ports, so that NIC queues lead to their owners; use fewer lcores.";
    /// The update does not say its reward and when it was generated.
    UpdateMissing => "update_missing", "The worker sends no update trailer: docs/protocol.md, section 15.";
    /// The reward of the update is infinite or not a number.
    RewardNotFinite => "reward_not_finite", "Look at the training: it has diverged.";
    /// A value of the update is infinite or not a number.
    UpdateNotFinite => "update_not_finite", "Look at the training: it has diverged.";
    /// The update was generated later than now, by more than clocks may differ.
    FromTheFuture => "from_the_future", "Synchronise the clocks of workers and appliance (NTP or PTP).";
    /// The update is longer than a segment of the queue, or than the job's workers have agreed on.
    UpdateTooLong => "update_too_long",
        "Lower the worker's payload, or raise the MTU of the appliance's ports.";
    /// No segment of the queue was free, and no waiting update of the cluster could take it in.
    UpdateQueueFull => "update_queue_full",
        "Send less often, or raise the rate or the segments of the port's queue.";
    /// The reward of the update is too far below that of its cluster's waiting one.
    LowReward => "low_reward", "Normal: Olaf's filter. Adjust its threshold if too many are dropped.";
    /// A newer update of the same worker waited already.
    Outdated => "outdated", "Normal where frames overtake each other.";
    /// The packet has no room for the sum of 16-bit floats, which is made in 32 bits.
    NoRoom => "no_room", "Lower the worker's payload to half of what fits.";
    /// The lcore that owns the queue of updates took no more.
    HandoffFull => "handoff_full", "Use fewer lcores for updates, or let workers send less often.";
    /// The job has no parameter server, or it has not registered, or has gone.
    NoServer => "no_server", "Start `pascaline ps` with the appliance's configuration.";
    /// The control plane had no room for the request.
    ControlFull => "control_full", "Normal when many workers join at once: they ask again.";
    /// Not for the appliance, and the port has neither a peer nor a bridge to forward it to.
    NotForUs => "not_for_us", "Normal for broadcasts; give the port a peer or a bridge to work in line.";
    /// To an address that is reserved for the other end of a cable (IEEE 802.1D): no bridge passes it on.
    BridgeReserved => "bridge_reserved",
        "Normal: spanning tree, pause frames, LACP. Only LLDP passes between more than two ports.";
    /// The receiver is behind the port that the packet came from.
    BridgeLocal => "bridge_local", "Normal behind a switch that has forgotten an address.";
    /// For the appliance's address, but nothing that it answers.
    NoService => "no_service",
        "Normal for scans and pings of other kinds; else correct the workers' UDP port.";
    /// The transmit queue of the port that it was to pass on through was full.
    TransmitFull => "transmit_full", "The link behind that port is slower than what comes in.";
}

#[cfg(test)]
mod tests;
