//! Sealed paths to appliances above, where this one is a rank as workers are here.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use pascaline_seal::{Fault, SharedEnd};
use pascaline_telemetry::DropReason;
use pascaline_wire::frame::Address;

use super::{Sealing, dropped};

/// Numbers of the packets to appliances above, of all jobs and lcores: none comes twice, whatever becomes of
/// jobs and sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers(Arc<AtomicU64>);

impl Numbers {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What a parent says that it demands, where it cannot open what it gets. It only explains silence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand(Arc<AtomicU32>);

impl Demand {
    /// By the code of a protection; `None` if it has said nothing.
    pub(crate) fn code(&self) -> Option<u32> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn note(&self, code: u32) {
        self.0.store(code.saturating_add(1), Ordering::Relaxed);
    }
}

/// The end of the path to a parent, which packets from this address and UDP port come from.
pub(crate) type EndAt = ((Address, u16), Arc<SharedEnd>);

/// The seals of a job's packets to and from those above.
#[derive(Debug, Clone)]
pub(crate) struct SealsAbove {
    /// Those that may be in force, as senders.
    pub(crate) ends: Box<[EndAt]>,
    /// The one that is.
    pub(crate) in_force: Arc<SharedEnd>,
    /// Its session there.
    pub(crate) session: u64,
    pub(crate) numbers: Numbers,
    pub(crate) demand: Demand,
}

impl SealsAbove {
    /// For a packet to the one in force that asks for nothing.
    pub(crate) fn sealing(&self) -> Sealing<'_> {
        asking(&self.in_force, self.session, self.numbers.next(), false)
    }

    /// Opens a packet of one of them where it lies, and gives its length. `None` if the sender is none.
    pub(crate) fn open(
        &self,
        sender: (Address, u16),
        datagram: &mut [u8],
    ) -> Option<Result<usize, DropReason>> {
        let (_, end) = self.ends.iter().find(|(parent, _)| *parent == sender)?;
        let opened = end.open(self.session, datagram);
        if let (Err(Fault::Unproven(code)), true) = (opened, Arc::ptr_eq(end, &self.in_force)) {
            self.demand.note(code);
        }
        Some(opened.map(|received| received.len).map_err(dropped))
    }
}

/// For a packet in this session, with the key that is `offered` if there is one.
pub(crate) fn asking(end: &SharedEnd, session: u64, number: u64, offered: bool) -> Sealing<'_> {
    Sealing { cipher: end.up(offered), of: session, counter: number }
}
