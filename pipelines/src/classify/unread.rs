//! What cannot be read: whose business it is, and what is wrong with it.

use pascaline_telemetry::DropReason;
use pascaline_wire::Malformed;
use pascaline_wire::datagram::Datagram;
use pascaline_wire::frame::{self, ETH_LEN};

use super::{Class, Classifier, reason};

impl Classifier<'_> {
    /// A malformed frame is dropped only where it is meant for this port; on its way to another host, that
    /// host judges it.
    #[cold]
    pub(super) fn malformed(&self, bytes: &[u8], malformed: Malformed) -> Class {
        let others = bytes.first_chunk::<ETH_LEN>().is_some_and(|head| !head.starts_with(&self.mac.0));
        // A host behind too many VLAN tags begins with a broadcast, for ARP. A port that forwards nothing
        // counts it, so that its operator can see why the host gets no answer.
        let asks_in_vain = malformed == Malformed::VlanDepth
            && bytes.first().is_some_and(|first| first & 1 == 1)
            && self.setup.beyond(self.port).is_empty();
        if others && !asks_in_vain {
            Class::Bypass
        } else {
            Class::Drop(self.blamed(bytes, reason(malformed)))
        }
    }

    /// What is wrong with a frame that is dropped for `reason`: that it is no frame of this port's links, or
    /// that reason.
    #[cold]
    #[inline(never)]
    pub(super) fn blamed(&self, bytes: &[u8], reason: DropReason) -> DropReason {
        let mtu = self.setup.ports.get(self.port).map_or(u16::MAX, |port| port.mtu);
        if frame::ip_length(bytes) > mtu.into() { DropReason::OverMtu } else { reason }
    }

    /// A datagram for the appliance that is none of this version of the protocol.
    #[cold]
    #[inline(never)]
    pub(super) fn unread(&self, bytes: &[u8], malformed: Malformed) -> Class {
        let former = (malformed == Malformed::Version).then(|| Datagram::former(bytes)).flatten();
        former.map_or_else(|| Class::Drop(self.blamed(bytes, reason(malformed))), Class::Former)
    }
}
