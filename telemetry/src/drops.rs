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
            /// The remedy for an operator.
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
    /// The IPv4 header checksum is wrong, or a UDP checksum that the NIC or software (`verify`) verified.
    Checksum => "checksum",
        "A few come from bad cables. All of them: turn off checksum offload on virtual links.";
    /// IP and UDP lengths disagree with each other or with the frame.
    Length => "length", "Look for a middlebox that pads or cuts frames.";
    /// The IP packet is longer than the port's MTU: several packets that a kernel has joined or not yet cut.
    OverMtu => "over_mtu",
        "Turn segmentation offloads off at the port's interface and its peer (ethtool -K), use a net_kernel \
         port, which understands them, or raise the port's mtu.";
    /// Not protocol version 3.
    Version => "version", "Another program sends to the port, or a worker speaks another version.";
    /// A kind that version 3 does not define.
    Kind => "kind", "Another program sends to the port, or a worker speaks another version.";
    /// A kind that this appliance or this job's mode does not handle.
    UnhandledKind => "unhandled_kind", "Match the worker's mode with the job's: synchronous or asynchronous.";
    /// Reserved flag bits are set.
    Flags => "flags", "The worker speaks another version of the protocol.";
    /// An element type or operation that is undefined or has no kernel.
    DType => "dtype", "Use a data type and operation of docs/protocol.md, section 7.";
    /// The payload is empty where there must be one, or not a whole number of elements.
    PayloadLength => "payload_length",
        "Let the worker send whole elements, at most the payload agreed on when it joined.";
    /// The trailer is inconsistent.
    Trailer => "trailer", "The worker builds wrong trailers: docs/protocol.md, section 8.";
    /// A control body that version 3 does not define.
    Control => "control", "The worker speaks another version of the protocol.";
    /// No job has this number.
    UnknownJob => "unknown_job", "Add the job to the configuration, or admit jobs that workers form.";
    /// The rank has not joined the job.
    NotMember => "not_member",
        "Normal after a restart: workers join again. Otherwise find out why their Joins fail.";
    /// The packet does not come from the address of its rank.
    RankSpoofed => "rank_spoofed",
        "Two workers use the same rank, or a worker changed its address without a Join.";
    /// The packet belongs to another generation of the job.
    WrongEpoch => "wrong_epoch", "Normal while a job forms again; otherwise stop workers of an old run.";
    /// The PSN is outside the window of the job's ranks.
    OutsideWindow => "outside_window",
        "A few arrive late, after losses. Many: a worker breaks the spread rule, or packets are forged.";
    /// A rank requests or passes on more results than its limit allows.
    TooOften => "too_often",
        "Normal for a moment after a restart. Otherwise a worker is broken, or its packets are forged.";
    /// The job's packets are sealed, and this one is not.
    Unsealed => "unsealed", "Start the rank with the job's `security` and its key; otherwise it is forged.";
    /// The seal does not fit: of another key, or of other bytes.
    Forged => "forged",
        "Give the rank the job's key. Otherwise packets are forged or changed: find out where they enter.";
    /// The packet is sealed, but older than any that could still be on its way.
    Replayed => "replayed", "A host sends recorded packets again: find out where they enter.";
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
    /// The packet ends its rank's operation but not the other ranks', or the other way round.
    OperationChanged => "operation_changed",
        "Let all ranks make the same calls, in the same order: the workers' error says which differ.";
    /// The count field does not fit the kind of packet.
    BadCount => "bad_count", "The worker speaks another version of the protocol.";
    /// The rank's contribution is in the sum already; an update has arrived before.
    Duplicate => "duplicate",
        "Normal with losses: a retransmission came too early. Many: check loss and round-trip time. \
         Updates are never sent again: the network duplicates packets.";
    /// All slots of the set hold other PSNs; the sender retransmits.
    Conflict => "conflict", "Add slots, lower the job's window, or configure a parameter server.";
    /// The job holds all the slots of its quota; the sender retransmits.
    Quota => "quota", "Raise the job's quota or lower its window.";
    /// All slots of the set hold other PSNs, and the job has its share of them; the sender retransmits.
    SlotShare => "slot_share",
        "Normal while other jobs use their share. Raise the job's `share`, add slots, or lower its window.";
    /// The job exceeds its share of packets that never lead to a result, over time or while the lcore is
    /// overloaded.
    PacketShare => "packet_share",
        "Find out why its PSNs do not complete. Give the appliance more lcores, or the job a larger `share`.";
    /// The job has exceeded its share of packets to the parameter server that never lead to a result.
    ServerShare => "server_share",
        "Find out why the job's PSNs do not complete, or raise the job's `share`.";
    /// The PSN is older than the one in its slot: its result has been sent.
    Stale => "stale", "Normal with losses; the sender gets the result from another rank.";
    /// The pool does not hold the PSN whose partial sum a rank requests.
    UnknownPsn => "unknown_psn", "Normal: the partial was sent or evicted just before.";
    /// The job is suspended.
    Halted => "halted", "Resume the job: a rank or an operator has suspended it.";
    /// The parameter server is full.
    ServerFull => "server_full", "Give the server a separate core, or add slots so that less is spilled.";
    /// Too many packets wait for the owner of the set.
    Contention => "contention",
        "Spread PSNs over UDP ports, so that NIC queues lead to their owners; use fewer lcores.";
    /// The update carries no reward and time of generation.
    UpdateMissing => "update_missing", "The worker sends no update trailer: docs/protocol.md, section 15.";
    /// The reward of the update is infinite or not a number.
    RewardNotFinite => "reward_not_finite", "Check the training: it has diverged.";
    /// A value of the update is infinite or not a number.
    UpdateNotFinite => "update_not_finite", "Check the training: it has diverged.";
    /// The update's time of generation is in the future, by more than clocks may differ.
    FromTheFuture => "from_the_future", "Synchronise the clocks of workers and appliance (NTP or PTP).";
    /// The update is longer than a segment of the queue, or than the job's workers have agreed on.
    UpdateTooLong => "update_too_long",
        "Lower the worker's payload, or raise the MTU of the appliance's ports.";
    /// No segment of the queue was free, and no waiting update of the cluster could absorb it.
    UpdateQueueFull => "update_queue_full",
        "Send less often, or raise the rate or the segments of the port's queue.";
    /// The reward of the update is too far below that of its cluster's waiting one.
    LowReward => "low_reward", "Normal: Olaf's filter. Adjust its threshold if too many are dropped.";
    /// A newer update of the same worker waited already.
    Outdated => "outdated", "Normal where frames overtake each other.";
    /// The packet has no room for the sum of 16-bit floats, which is made in 32 bits.
    NoRoom => "no_room", "Lower the worker's payload to half of what fits.";
    /// The inbox of the lcore that owns the queue of updates was full.
    HandoffFull => "handoff_full", "Use fewer lcores for updates, or let workers send less often.";
    /// The job has no parameter server, or the server has not registered or is gone.
    NoServer => "no_server", "Start `pascaline ps` with the appliance's configuration.";
    /// The control plane had no room for the request.
    ControlFull => "control_full", "Normal when many workers join at once: they ask again.";
    /// Not for the appliance, and the port has neither a peer nor a bridge to forward it to.
    NotForUs => "not_for_us", "Normal for broadcasts; give the port a peer or a bridge to work in line.";
    /// To an address that is reserved for the other end of a cable (IEEE 802.1D): no bridge forwards it.
    BridgeReserved => "bridge_reserved",
        "Normal: spanning tree, pause frames, LACP. Only LLDP is forwarded between more than two ports.";
    /// The receiver is behind the port that the packet came from.
    BridgeLocal => "bridge_local", "Normal behind a switch that has forgotten an address.";
    /// For the appliance's address, but for no service of it.
    NoService => "no_service",
        "Normal for scans and pings of other kinds; otherwise correct the workers' UDP port.";
    /// The transmit queue of the outgoing port was full.
    TransmitFull => "transmit_full", "The link behind that port is slower than the incoming traffic.";
}

#[cfg(test)]
mod tests;
