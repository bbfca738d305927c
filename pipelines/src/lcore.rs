//! One lcore: a turn takes a burst from every port and brings each packet to its end.
//!
//! A gradient's way from `rx_burst` to `tx_burst`. The first of the numbered steps comes back to
//! `Lcore::burst`, the others to `Lcore::handle`, which know the next one. Within the third, the slot answers
//! with an `Admission` and the shard with an `Outcome`, by which `add_singly` opens, takes or recycles. To
//! emit, the fourth in the README's picture, is the end of the third:
//!
//! ```text
//! 1 receive  io.receive → rx_burst (in the appliance: `DpdkIo` in `app/src/appliance/ports.rs`)
//! 2 sort     Lcore::sort → Session::gather ─ one masked compare (Classifier::recognise), prefetch the set
//!            Lcore::hold_back ─ cut: jobs that exceed their share of an overloaded lcore
//! 3 add      Lcore::add → Session::add_burst ─ predict the slot → Shard::add → Slot::add
//!              ├ no slot expects it: LcoreSink::admits; outside its job's window the slow path drops it
//!              ├ the first one: Session::open → Slot::open, its packet is the accumulator
//!              ├ of 2 KiB and more: several at once, add_together → Slot::add_long
//!              ├ of another lcore's set: handed off; that one's turn takes it up after its bursts (resume)
//!              └ the last one: LcoreSink::completed → deliver → Emitter::fan_out; below a parent
//!                deliver_by_detour, which sends the sum up (send_up) and fans out what comes down
//!                (take_from_above)
//! 4 flush    Emitter::flush → io.transmit → tx_burst
//! ```
//!
//! In line, `lcore/ahead.rs` has what passes leave before step 2, and between the frames of step 4.
//!
//! In this crate: `lcore/fast_path.rs` sorts, `classify/fast_path.rs` recognises, `lcore/sink.rs` hears what
//! the pool says, `emit/results.rs` fans out. In the aggregator: `session/burst.rs` gathers,
//! `session/fast_path.rs` adds, by `shard.rs`, in `slot/add.rs`.
//!
//! Packets of any other kind take the slow path, `lcore/slow_path.rs`: Classifier::classify, then
//! Session::offer with a whole request.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::{Burst, Session};
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_telemetry::{Counter, LcoreCounters, Recorder, Surveyor};

use crate::emit::Emitter;
use crate::idle::{Idle, IdlePolicy, Rest};
use crate::io::{BURST, Io};
use crate::jobs::JobTable;
use crate::meter::Limits;
use crate::overload::Overload;
use crate::server::ServerEnd;
use crate::setup::{PortSetup, Setup};
use crate::shared::LcoreEnd;
use crate::updates::UpdateEnd;
pub use ahead::AHEAD;
use ahead::Ahead;
use sink::LcoreSink;

mod ahead;
mod bypass;
mod fast_path;
mod from_above;
mod housekeeping;
mod orders;
mod seals;
mod sink;
mod slow_path;
mod updates;

/// What an lcore is made of.
#[derive(Debug)]
pub struct LcoreParts<I: Io, const WORDS: usize = 1> {
    /// Its number, from 0.
    pub number: usize,
    /// Its queues.
    pub io: I,
    /// Its access to the aggregator pool.
    pub session: Session<I::Buf, WORDS>,
    /// The appliance.
    pub setup: Arc<Setup>,
    /// Its end of the control plane.
    pub end: LcoreEnd,
    /// Its ends of the queues to and from the parameter server in the appliance itself, if there is one.
    pub server: Option<ServerEnd<I::Buf>>,
    /// Its part in the queues of updates, if there are any.
    pub updates: Option<UpdateEnd<I::Buf>>,
    /// Where it publishes its counters.
    pub counters: Arc<LcoreCounters>,
    /// Time from the first to the last contribution of a PSN.
    pub spread: Recorder,
    /// Time from a packet's reception to the end of its turn.
    pub service: Recorder,
    /// What it finds in the pool.
    pub surveyor: Surveyor,
}

/// One lcore of the packet path.
#[derive(Debug)]
pub struct Lcore<I: Io, const WORDS: usize = 1> {
    number: usize,
    session: Session<I::Buf, WORDS>,
    setup: Arc<Setup>,
    end: LcoreEnd,
    server: Option<ServerEnd<I::Buf>>,
    updates: Option<UpdateEnd<I::Buf>>,
    counters: Arc<LcoreCounters>,
    spread: Recorder,
    service: Recorder,
    surveyor: Surveyor,
    kernels: Kernels,
    emitter: Emitter<I>,
    /// There are ports in line.
    in_line: bool,
    /// What they have brought and has not been taken.
    ahead: Ahead<I::Buf>,
    table: Arc<JobTable>,
    version: u64,
    limits: Limits,
    overload: Box<Overload>,
    /// A burst of this turn was full.
    full: bool,
    turns: u64,
    /// How long the last full burst took that was measured.
    full_burst_ns: u64,
    /// Partials that this round of housekeeping has found so far, and the sets that it has looked at.
    seen: (usize, usize),
    /// The last turn has moved updates, or exchanged packets with other lcores.
    departed: bool,
    /// True if something has been counted that matters to others.
    unpublished: bool,
}

/// Turns between two looks at what need not be looked at every time.
const HOUSEKEEPING: u64 = 64;
/// Turns between two publications of the counters while full bursts arrive. With less to do, every turn that
/// does something publishes.
const PUBLISH: u64 = 8;
/// Turns between two full bursts that are timed.
const TIMED: u64 = 4;
/// Answers of the control plane that one turn sends.
const REPLIES: usize = 8;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Puts an lcore together.
    #[must_use]
    pub fn new(parts: LcoreParts<I, WORDS>) -> Self {
        let LcoreParts {
            number,
            io,
            mut session,
            setup,
            end,
            server,
            updates,
            counters,
            spread,
            service,
            surveyor,
        } = parts;
        let (ports, marks, ahead) = (setup.ports.len(), setup.marks, Ahead::of(&setup));
        // One that the control plane keeps as well, so that exchanging it later frees nothing here.
        let (version, table) = end.first_table();
        session.set_shares(table.shares());
        let mut limits = Limits::default();
        limits.share_out(table.weights());
        Self {
            number,
            session,
            in_line: setup.is_in_line(),
            setup,
            end,
            server,
            updates,
            counters,
            spread,
            service,
            surveyor,
            kernels: Kernels::detect(),
            emitter: Emitter::new(io, ports, marks).of_lcore(number),
            ahead,
            table,
            version,
            limits,
            overload: Box::default(),
            full: false,
            turns: 0,
            full_burst_ns: 0,
            seen: (0, 0),
            departed: false,
            unpublished: false,
        }
    }

    /// Runs until the control plane wants it to end, then sends off what is left.
    pub fn run(&mut self, policy: IdlePolicy) {
        let mut idle = Idle::new(policy);
        while !self.end.stopping() {
            // What leaves a queue of updates is work as well: more may be about to.
            let found = self.turn() > 0 || self.departed;
            match idle.polled(found) {
                Rest::Nap(nap) => {
                    // Who watches the lcore sees how often it has turned, however long it naps.
                    self.publish();
                    self.emitter.io.rest(nap);
                }
                rest => rest.take(),
            }
        }
        self.finish();
    }

    /// One turn: at most one burst from each port, the control plane's news, and housekeeping that is due.
    /// Returns the packets received. Work is bounded.
    pub fn turn(&mut self) -> usize {
        if let Some(table) = self.end.newer_table(&mut self.version) {
            self.session.set_shares(table.shares());
            self.limits.share_out(table.weights());
            self.emitter.forget();
            self.table = table;
            self.end.adopted(self.version);
        }
        let mut received = 0;
        for port in 0..self.setup.ports.len() {
            received += self.burst(port);
        }
        let left = self.take_left();
        let busy = self.replies() || left.is_some() || self.emitter.waiting() > 0;
        if busy {
            self.emitter.flush();
        }
        if let Some(began) = left {
            self.count_left(began);
        }
        self.overload.turn(core::mem::take(&mut self.full), self.table.weights());
        self.turns += 1;
        // An idle turn has the time for it.
        if received == 0 || self.turns.is_multiple_of(HOUSEKEEPING) {
            self.housekeeping();
        }
        let turn = if received > 0 || left.is_some() { Counter::BusyTurns } else { Counter::IdleTurns };
        self.emitter.tally.add(turn, 1);
        self.unpublished |= received > 0 || busy;
        if self.turns.is_multiple_of(PUBLISH) || received < BURST && self.unpublished {
            self.publish();
        }
        received
    }

    #[inline(always)]
    fn publish(&mut self) {
        self.counters.publish(&mut self.emitter.tally);
        self.unpublished = false;
    }

    /// Takes up what others have left for this lcore: the parameter server, updates, and packets of sets that
    /// are its own. Says when it began, if there was anything.
    #[inline(always)]
    fn take_left(&mut self) -> Option<u64> {
        let served = self.take_served();
        let updated = self.update_queues();
        let resumed = self.session.waits().then(|| {
            let stands_for = self.stands_for();
            self.spread.stand_for(stands_for);
            let began = if stands_for > 0 { self.emitter.io.now() } else { 0 };
            self.with_pool(|session, sink| session.resume(sink));
            began
        });
        self.departed = updated.or(resumed).is_some();
        served.or(updated).or(resumed)
    }

    /// Counts the time that it has taken, since then.
    #[inline(never)]
    fn count_left(&mut self, began: u64) {
        let stands_for = self.stands_for();
        if stands_for > 0 {
            self.emitter.tally.busy(self.emitter.io.now().saturating_sub(began) * stands_for);
        }
    }

    /// For how many turns this one is timed; 0 if it is not: of those with a full burst, one in a few.
    #[inline]
    fn stands_for(&self) -> u64 {
        let of_a_few = if self.turns.is_multiple_of(TIMED) { TIMED } else { 0 };
        if self.full { of_a_few } else { 1 }
    }

    /// One burst of a port, from reception to transmission.
    fn burst(&mut self, port: usize) -> usize {
        let mut packets = ArrayVec::<I::Buf, BURST>::new();
        let mut passed = 0;
        if self.in_line {
            passed = self.receive_in_line(port, &mut packets);
        } else {
            self.emitter.io.receive(port, &mut packets);
            if let Some(job) = self.end.capture().wanted() {
                let now = self.emitter.io.now();
                self.end.capture().copy_burst(job, (&self.setup, &self.table), now, &packets);
            }
        }
        let received = packets.len();
        if received > 0 {
            self.handle(port, packets);
        } else if passed == 0 {
            self.emitter.tally.add(Counter::EmptyPolls, 1);
        }
        received + passed
    }

    /// What is done about the packets of a burst.
    #[inline(always)]
    fn handle(&mut self, port: usize, mut packets: ArrayVec<I::Buf, BURST>) {
        let received = packets.len();
        self.full |= received == BURST;
        self.spread.stand_for(self.stands_for());
        let mut bytes = 0;
        for packet in &packets {
            packet.prefetch();
            bytes += packet.total_len();
        }
        let now = self.emitter.io.now();
        self.emitter.tally.add(Counter::Received, received as u64);
        let mut burst = Burst::new();
        let mut others = ArrayVec::<I::Buf, BURST>::new();
        let Some(&PortSetup { mac, .. }) = self.setup.ports.get(port) else { return };
        if self.table.is_sealed() {
            self.open_seals(port, now, &mut packets);
        }
        self.sort((port, mac), &mut packets, &mut burst, &mut others);
        self.hold_back(now, &mut burst);
        self.emitter.tally.add(Counter::ReceivedBytes, bytes as u64);
        self.add(now, &mut burst);
        others.extend(burst.refused());
        if !others.is_empty() {
            self.others(port, mac, now, others);
        }
        if self.ahead.looks() {
            self.flush_looking();
        } else {
            self.emitter.flush();
        }
        let busy = self.busy_since(now, received);
        self.emitter.tally.burst(received, busy);
        self.service.record(busy, received as u64);
    }

    /// How long a burst has taken. Reading the clock costs half a packet, so only one in a few full bursts is
    /// measured; the others count as long as that one.
    #[inline]
    fn busy_since(&mut self, start: u64, received: usize) -> u64 {
        let full = received == BURST;
        if full && self.full_burst_ns > 0 && !self.turns.is_multiple_of(TIMED) {
            return self.full_burst_ns;
        }
        let busy = self.emitter.io.now().saturating_sub(start);
        if full {
            self.full_burst_ns = busy;
        }
        busy
    }

    /// Sends what the control plane has answered. True if there was anything.
    fn replies(&mut self) -> bool {
        for sent in 0..REPLIES {
            let Some(reply) = self.end.reply() else { return sent > 0 };
            self.emitter.stage_reply(&reply);
        }
        true
    }

    #[inline(always)]
    fn with_pool<T>(
        &mut self,
        act: impl FnOnce(&mut Session<I::Buf, WORDS>, &mut LcoreSink<'_, I>) -> T,
    ) -> T {
        let mut sink = LcoreSink {
            number: self.number,
            kernels: &self.kernels,
            emitter: &mut self.emitter,
            table: &self.table,
            setup: &self.setup,
            spread: &mut self.spread,
            limits: &mut self.limits,
            overload: &mut self.overload,
            server: self.server.as_ref(),
        };
        act(&mut self.session, &mut sink)
    }

    /// Packets that the pool holds in this lcore's shard; for tests and tools.
    pub fn packets_held(&self) -> usize {
        self.session.packets()
    }

    /// Frames that no port has taken yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.emitter.waiting()
    }

    /// The ports.
    pub fn io(&mut self) -> &mut I {
        &mut self.emitter.io
    }
}
