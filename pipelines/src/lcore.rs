//! One lcore: a turn takes a burst from every port and brings each packet to its end.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::{Brevity, Brief, Key, Place, Request, Session, Verb, Verdict};
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_telemetry::{Counter, DropReason, Found, JobEvent, LcoreCounters, Moment, Recorder, Surveyor};
use pascaline_wire::arp;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::frame::{Address, Frame, Mac, Net};
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::icmp;
use pascaline_wire::plain::{self, Lengths};

use crate::classify::{Class, Classifier, Counted, PAYLOAD_OFFSET, Payload};
use crate::emit::{self, Emitter};
use crate::idle::{Idle, IdlePolicy};
use crate::io::{BURST, Io};
use crate::jobs::{JobTable, Mode};
use crate::limits::Limits;
use crate::membership::ControlRequest;
use crate::outcome::Outcome;
use crate::per_job::says_of_job;
use crate::server::{self, ServerEnd};
use crate::shared::{LcoreEnd, Setup};
use crate::updates::{Offer, UpdateEnd};
use kept::Taken;

mod kept;
mod long;
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
    table: Arc<JobTable>,
    version: u64,
    limits: Limits,
    turns: u64,
    /// How long the last full burst took that was measured.
    full_burst_ns: u64,
    /// The last turn has taken updates into queues, or sent some off, or worked for other lcores.
    departed: bool,
    /// True if something has been counted that matters to others.
    unpublished: bool,
}

/// A plain gradient on its way into the pool.
struct Gradient<B> {
    brief: Brief,
    place: Place,
    /// Until the pool has taken it.
    packet: Option<B>,
}

/// The plain gradients of a burst.
type Gradients<I> = ArrayVec<Gradient<<I as Io>::Buf>, BURST>;

/// Turns between two looks at what need not be looked at every time.
const HOUSEKEEPING: u64 = 64;
/// Turns between two publications of the counters while whole bursts arrive, microseconds apart; with less to do, every turn
/// that does something publishes.
const PUBLISH: u64 = 8;
/// Turns between two full bursts that are timed.
const TIMED: u64 = 4;
/// Sets that one round of housekeeping sweeps.
const SWEEP: usize = 16;
/// Packets by which the contents of a slot are asked for ahead of time.
const AHEAD: usize = 4;
/// How often an lcore looks, when it ends, whether others have left something: some milliseconds.
const LAST_TURNS: usize = 100_000;
/// Answers of the control plane that one turn sends.
const REPLIES: usize = 8;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Puts an lcore together.
    #[must_use]
    pub fn new(parts: LcoreParts<I, WORDS>) -> Self {
        let LcoreParts {
            number,
            io,
            session,
            setup,
            end,
            server,
            updates,
            counters,
            spread,
            service,
            surveyor,
        } = parts;
        let ports = setup.ports.len();
        // One that the control plane keeps as well, so that exchanging it later frees nothing here.
        let (version, table) = end.first_table();
        Self {
            number,
            session,
            setup,
            end,
            server,
            updates,
            counters,
            spread,
            service,
            surveyor,
            kernels: Kernels::detect(),
            emitter: Emitter::new(io, ports),
            table,
            version,
            limits: Limits::default(),
            turns: 0,
            full_burst_ns: 0,
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
            idle.polled(found).take();
        }
        self.finish();
    }

    /// One turn: at most one burst from each port, whatever the control plane has to say, and the housekeeping that
    /// is due. Returns the packets received. Work is bounded.
    pub fn turn(&mut self) -> usize {
        if let Some(table) = self.end.newer_table(&mut self.version) {
            self.table = table;
            self.end.adopted(self.version);
        }
        let mut received = 0;
        for port in 0..self.setup.ports.len() {
            received += self.burst(port);
        }
        let served = self.take_served();
        self.departed = self.update_queues();
        self.departed |= self.session.has_waiting();
        let busy = self.replies() || served || self.departed || self.emitter.waiting() > 0;
        if busy {
            self.with_pool(|session, outcome| session.resume(outcome));
            self.emitter.flush();
        }
        self.turns += 1;
        // An idle turn has the time for it.
        if received == 0 || self.turns.is_multiple_of(HOUSEKEEPING) {
            self.housekeeping();
        }
        self.emitter.tally.add(if received > 0 { Counter::BusyTurns } else { Counter::IdleTurns }, 1);
        self.unpublished |= received > 0 || busy;
        if self.turns.is_multiple_of(PUBLISH) || received < BURST && self.unpublished {
            self.counters.publish(&mut self.emitter.tally);
            self.unpublished = false;
        }
        received
    }

    /// One burst of a port, from reception to transmission.
    fn burst(&mut self, port: usize) -> usize {
        let mut packets = ArrayVec::<I::Buf, BURST>::new();
        self.emitter.io.receive(port, &mut packets);
        let received = packets.len();
        if received == 0 {
            self.emitter.tally.add(Counter::EmptyPolls, 1);
            return 0;
        }
        let mut bytes = 0;
        for packet in &packets {
            packet.prefetch();
            bytes += packet.total_len();
        }
        let now = self.emitter.io.now();
        self.emitter.tally.add(Counter::Received, received as u64);
        let mut gradients = Gradients::<I>::new();
        let mut others = ArrayVec::<I::Buf, BURST>::new();
        let Some(own) = self.setup.ports.get(port) else { return 0 };
        let mac = own.mac;
        if let Some(job) = self.end.tap().wanted() {
            self.end.tap().copy_burst(job, &self.setup, now, &packets);
        }
        if self.session.is_only() {
            self.sort::<true>(port, mac, &mut packets, &mut gradients, &mut others);
        } else {
            self.sort::<false>(port, mac, &mut packets, &mut gradients, &mut others);
        }
        self.emitter.tally.add(Counter::ReceivedBytes, bytes as u64);
        self.gradients(port, mac, now, &mut gradients);
        // All of them have been taken out: there is nothing to be dropped, but compilers would look.
        debug_assert!(gradients.iter().all(|gradient| gradient.packet.is_none()));
        core::mem::forget(gradients);
        if !others.is_empty() {
            self.others(port, mac, now, others);
        }
        self.emitter.flush();
        let busy = self.busy_since(now, received);
        self.emitter.tally.burst(received, busy);
        self.service.record(busy, received as u64);
        received
    }

    /// How long a burst has taken. To read the clock takes as long as half a packet: of full bursts, one in a few is measured, and
    /// the others count as long as that one.
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

    /// Tells plain gradients from other packets, and asks for the sets that they belong to: by the time the burst has been
    /// sorted, the first ones are in the cache.
    ///
    /// `ONLY` if this is the only lcore, asked once for the burst. A function of its own, as is the next one: inlined into the
    /// turn they would live in the stack instead of registers.
    #[inline(never)]
    fn sort<const ONLY: bool>(
        &self,
        port: usize,
        mac: Mac,
        packets: &mut ArrayVec<I::Buf, BURST>,
        gradients: &mut Gradients<I>,
        others: &mut ArrayVec<I::Buf, BURST>,
    ) {
        let classifier = Classifier { setup: &self.setup, table: &self.table, port, mac, now: 0 };
        if self.table.is_wide() {
            for packet in packets.iter() {
                if let Some((job, rank)) = plain::job_and_rank(packet.bytes()) {
                    self.table.ask_for_flow(job, rank);
                }
            }
        }
        let mut lengths = Lengths::NONE;
        // Drained, not consumed: that would move the whole array first.
        gradients.extend(packets.drain(..).filter_map(|packet| {
            if let Some(gradient) = classifier.plain_after(packet.bytes(), &mut lengths)
                && !packet.bad_checksum()
            {
                let place = self.session.place_as::<ONLY>(&gradient.flow.terms, gradient.plain.psn);
                self.session.prefetch::<ONLY>(place);
                return Some(Gradient { brief: gradient.brief(), place, packet: Some(packet) });
            }
            others.push(packet);
            None
        }));
    }

    /// Asks for what is probably in no cache when it is needed, all of a burst's at once: where there are many slots, for results
    /// that have to make room; where there are many jobs or ranks, for where packets are counted and how results are sent.
    #[inline(never)]
    fn look_far_ahead(&mut self, gradients: &Gradients<I>) {
        if self.session.is_deep() {
            for gradient in gradients {
                self.session.prefetch_start(gradient.place);
            }
        }
        if self.table.is_wide() {
            for Gradient { brief, place, .. } in gradients {
                let (job, rank) = (brief.key().job(), brief.rank());
                self.table.ask_for_count(job, rank, self.number);
                if self.session.is_last(*place, brief) {
                    self.table.ask_for_replies(job, rank, self.number);
                }
            }
        }
    }

    /// Brings plain gradients into the pool.
    #[inline(never)]
    fn gradients(&mut self, port: usize, mac: Mac, now: u64, gradients: &mut Gradients<I>) {
        self.session.foresee_all(gradients.iter_mut().map(|gradient| &mut gradient.place));
        if self.session.is_deep() | self.table.is_wide() {
            self.look_far_ahead(gradients);
        }
        let classifier = Classifier { setup: &self.setup, table: &self.table, port, mac, now };
        for gradient in gradients.iter().take(AHEAD) {
            self.session.prefetch_contents(gradient.place);
        }
        let mut outcome = Outcome {
            number: self.number,
            kernels: &self.kernels,
            emitter: &mut self.emitter,
            table: &self.table,
            setup: &self.setup,
            spread: &mut self.spread,
            limits: &mut self.limits,
            server: self.server.as_ref(),
        };
        let mut events = 0;
        let mut at = 0;
        if Self::are_long(&self.session, gradients, outcome.table) {
            events = Self::add_long(&mut self.session, &classifier, gradients, &mut outcome);
            at = gradients.len();
        }
        while at < gradients.len() {
            if let Some(coming) = gradients.get(at + AHEAD) {
                self.session.prefetch_contents(coming.place);
            }
            let Some(Gradient { brief, place, packet }) = gradients.get_mut(at) else { break };
            let Some(bytes) = packet.as_ref().map(PacketBuf::bytes) else { break };
            match self.session.add_brief(*place, brief, PAYLOAD_OFFSET, now, bytes, &mut outcome) {
                Brevity::Added => {
                    at += 1;
                    // At once, so that the next result goes out with what is in the cache.
                    if let Some(packet) = packet.take() {
                        outcome.emitter.reuse(packet);
                    }
                }
                Brevity::Concluded => {
                    at += 1;
                    events += 1;
                }
                Brevity::Absent if Self::open(&mut self.session, now, &mut gradients[at], &mut outcome) => {
                    at += 1;
                    events += 1;
                }
                Brevity::Absent | Brevity::Unsuited => {
                    let rest = &mut gradients[at..];
                    let Taken { taken, led } = Self::take(&mut self.session, &classifier, rest, &mut outcome);
                    at += taken;
                    events += led;
                }
            }
        }
        // What has been added in brief, and has led to no event.
        let hits = (gradients.len() - events) as u64;
        outcome.emitter.tally.add(Counter::Absorbed, hits);
        outcome.emitter.tally.add(Counter::Hits, hits);
        let mut counted = Counted::at(now);
        for Gradient { brief, packet, .. } in gradients {
            classifier.count(brief, self.number, &mut counted);
            if let Some(packet) = packet.take() {
                outcome.emitter.reuse(packet);
            }
        }
    }

    /// Packets that are not plain gradients.
    #[inline(never)]
    fn others(&mut self, port: usize, mac: Mac, now: u64, packets: ArrayVec<I::Buf, BURST>) {
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let classifier = Classifier { setup: &setup, table: &table, port, mac, now };
        let mut offers = ArrayVec::new();
        for packet in packets {
            match classifier.classify_any(packet.bytes()) {
                Class::Bypass => self.other(&classifier, packet, Class::Bypass),
                _ if packet.bad_checksum() => self.emitter.discard(packet, DropReason::Checksum),
                Class::Pool(request) => {
                    let mut packet = packet;
                    // A trailer is found from the end.
                    if request.partial
                        && let Some(end) = classifier.end(packet.bytes())
                    {
                        packet.truncate(end);
                    }
                    self.offer(&table, &request, packet);
                }
                // At most one for each packet, so there is room.
                Class::Update(port, update) => _ = offers.try_push(Offer { port, update, packet }),
                other => self.other(&classifier, packet, other),
            }
        }
        if !offers.is_empty() {
            self.offer_updates(now, offers);
        }
    }

    /// Gives a packet to the pool, in the part that its job uses.
    fn offer(&mut self, table: &JobTable, request: &Request, packet: I::Buf) {
        let job = table.get(request.key.job());
        let region = job.and_then(|job| job.policy.region);
        if let Some(job) = job.filter(|_| request.verb == Verb::Add) {
            let &Request { key, rank, again, now, .. } = request;
            job.counts().of(self.number).heard(rank, key.psn(), Moment::at(now));
            if again {
                job.cells.again(self.number, rank);
            }
        }
        self.with_pool(|session, outcome| {
            let place = match region {
                None => session.place(request.key),
                Some(region) => session.place_in(region, request.key),
            };
            session.offer_at(place, request, packet, outcome);
        });
    }

    /// Takes what the parameter server in the appliance itself has sent. True if there was anything.
    fn take_served(&mut self) -> bool {
        let Some(end) = self.server.clone().filter(|end| !end.from.is_empty()) else { return false };
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let now = self.emitter.io.now();
        let by = Classifier { setup: &setup, table: &table, port: 0, mac: Mac::default(), now };
        for _ in 0..BURST {
            let Some(packet) = end.from.pop() else { break };
            self.emitter.tally.add(Counter::Received, 1);
            self.emitter.tally.add(Counter::ReceivedBytes, packet.total_len() as u64);
            match by.of_server(packet.bytes()) {
                Ok((header, payload)) => self.served(&by, &header, payload, packet),
                Err(reason) => self.emitter.discard(packet, reason),
            }
        }
        true
    }

    /// A packet of the parameter server.
    fn served(&mut self, by: &Classifier<'_>, header: &Header, payload: Payload, mut packet: I::Buf) {
        let Some(job) = by.table.get(header.job).filter(|job| job.epoch == header.epoch) else {
            return self.emitter.discard(packet, DropReason::WrongEpoch);
        };
        let bypass = header.flags.has(Flags::BYPASS);
        match header.kind {
            Kind::Ack if job.mode == Mode::Olaf => self.acknowledged(by.now, job, header, payload, packet),
            _ if job.mode == Mode::Olaf => self.emitter.discard(packet, DropReason::UnhandledKind),
            Kind::Result | Kind::Reminder if bypass => {
                server::pass_to_rank(&mut self.emitter, job, header, payload, packet);
            }
            // Why a contribution was refused, which the server alone could see.
            Kind::Control if bypass && is_refusal(packet.bytes(), payload) => {
                server::pass_to_rank(&mut self.emitter, job, header, payload, packet);
            }
            Kind::Control => self.emitter.discard(packet, DropReason::Control),
            Kind::Result => {
                self.emitter.tally.add(Counter::ServerResults, 1);
                job.cells.count(self.number, JobEvent::ServerResults, 1);
                packet.truncate(usize::from(payload.offset) + usize::from(payload.total));
                // From no rank in particular.
                let request = by.to_pool(Verb::Install, job, &Header { rank: 0, ..*header }, payload);
                self.offer(by.table, &request, packet);
            }
            Kind::Fetch => {
                let request = by.to_pool(Verb::Fetch, job, header, payload);
                self.offer(by.table, &request, packet);
            }
            _ => self.emitter.discard(packet, DropReason::UnhandledKind),
        }
    }

    /// Counts a drop for the job that a packet names, if it says something about that job.
    fn dropped_of(&self, table: &JobTable, job: u16, reason: DropReason) {
        if says_of_job(reason)
            && let Some(job) = table.get(job)
        {
            job.cells.dropped(self.number, reason);
        }
    }

    /// Everything that is not the pool's business.
    fn other(&mut self, by: &Classifier<'_>, mut packet: I::Buf, class: Class) {
        let (port, mac) = (by.port, by.mac);
        match class {
            // Dealt with by the caller, all of them at once.
            Class::Pool(_) | Class::Update(..) => {}
            Class::ToServer(header, payload) => match by.table.get(header.job) {
                Some(job) => {
                    let end = self.server.as_ref();
                    let count = |event, count| job.cells.count(self.number, event, count);
                    if !server::pass_on(&mut self.emitter, end, job, &header, payload, packet) {
                        count(JobEvent::ServerFull, 1);
                    } else if header.kind == Kind::Gradient {
                        count(JobEvent::Bypassed, 1);
                        count(JobEvent::BypassedBytes, u64::from(payload.len));
                    }
                }
                None => self.emitter.discard(packet, DropReason::UnknownJob),
            },
            Class::FromServer(header, payload) => self.served(by, &header, payload, packet),
            Class::Drop(reason) => {
                if let Some((_, header)) = by.sender(packet.bytes()) {
                    self.dropped_of(by.table, header.job, reason);
                }
                self.emitter.discard(packet, reason);
            }
            Class::Refuse(reason, objection) => {
                if let Some((from, header)) = by.sender(packet.bytes()) {
                    self.dropped_of(by.table, header.job, reason);
                    self.with_pool(|_, outcome| outcome.refuse(by.now, &from, &header, objection));
                }
                self.emitter.discard(packet, reason);
            }
            Class::Bypass => match self.setup.ports.get(port).and_then(|own| own.peer) {
                Some(peer) => {
                    self.emitter.tally.add(Counter::Forwarded, 1);
                    self.emitter.stage(peer, packet, emit::Class::Forwarded);
                }
                None => self.emitter.discard(packet, DropReason::NotForUs),
            },
            Class::Control(control) => {
                let request = by.sender(packet.bytes()).map(|(from, header)| ControlRequest {
                    lcore: self.number,
                    from,
                    header,
                    control,
                });
                if request.is_some_and(|request| self.end.request(request)) {
                    self.emitter.tally.add(Counter::Answered, 1);
                    self.emitter.recycle(packet);
                } else {
                    self.emitter.discard(packet, DropReason::ControlFull);
                }
            }
            Class::Arp(at, request) => {
                let done = arp::answer_in_place(packet.bytes_mut(), at, &request, mac).is_ok();
                self.answer(port, packet, done);
            }
            Class::Echo => {
                let done = answer_echo(&mut packet, mac);
                self.answer(port, packet, done);
            }
            Class::Solicitation(target) => {
                let done = advertise(&mut packet, target, mac);
                self.answer(port, packet, done);
            }
        }
    }

    fn answer(&mut self, port: usize, packet: I::Buf, done: bool) {
        if done {
            self.emitter.tally.add(Counter::Answered, 1);
            self.emitter.stage(port, packet, emit::Class::Own);
        } else {
            self.emitter.discard(packet, DropReason::Truncated);
        }
    }

    /// Sends what the control plane has answered. True if there was anything.
    fn replies(&mut self) -> bool {
        for sent in 0..REPLIES {
            let Some(reply) = self.end.reply() else { return sent > 0 };
            self.emitter.stage_bytes(reply.port, reply.frame());
        }
        true
    }

    fn housekeeping(&mut self) {
        let table = Arc::clone(&self.table);
        let now = self.emitter.io.now();
        self.emitter.swept_at = now;
        let judge = |key: Key, first: Option<u64>| match table.get(key.job()) {
            Some(job) if job.epoch == key.epoch() => {
                let (limit, quota) = (job.policy.partial_after, job.policy.quota);
                let late = limit > 0 && first.is_some_and(|first| now.saturating_sub(first) > limit);
                // What keeps older PSNs out of a region, so that none is completed twice without all ranks, must stay there.
                let guards = job.policy.region.is_some() && job.partials;
                match () {
                    () if late => Verdict::Release,
                    // What nobody waits for must not use up the quota for ever.
                    () if quota > 0 && !guards => Verdict::Expire(now),
                    () => Verdict::Keep,
                }
            }
            _ => Verdict::Vacate,
        };
        let mut left = SWEEP.min(self.session.sets());
        while left > 0 {
            let (set, mut found) = (self.session.next_swept(), Found::default());
            let together = self.surveyor.sets_together(set, left);
            left -= together;
            let counted = |key, first| {
                found.note(now, first);
                judge(key, first)
            };
            self.with_pool(|session, outcome| session.sweep(together, counted, outcome));
            self.surveyor.visited(set + together - 1, found);
        }
        self.emitter.flush();
        if self.turns.is_multiple_of(HOUSEKEEPING) {
            self.spread.publish();
            self.service.publish();
        }
    }

    /// The last turn: sends what waits, gives up what cannot be sent, publishes what was counted.
    fn finish(&mut self) {
        // What others have left, and still may. They end at the same time, but for one that is stuck.
        self.session.close();
        for _ in 0..LAST_TURNS {
            if self.session.has_waiting() {
                self.with_pool(|session, outcome| session.resume(outcome));
                self.emitter.flush();
            } else if self.session.is_alone() {
                break;
            }
            core::hint::spin_loop();
        }
        if let Some(updates) = &mut self.updates {
            updates.finish(&mut self.emitter);
        }
        self.emitter.flush();
        self.emitter.abandon();
        self.counters.publish(&mut self.emitter.tally);
        self.spread.publish();
        self.service.publish();
    }

    #[inline]
    fn with_pool<T>(&mut self, act: impl FnOnce(&mut Session<I::Buf, WORDS>, &mut Outcome<'_, I>) -> T) -> T {
        let mut outcome = Outcome {
            number: self.number,
            kernels: &self.kernels,
            emitter: &mut self.emitter,
            table: &self.table,
            setup: &self.setup,
            spread: &mut self.spread,
            limits: &mut self.limits,
            server: self.server.as_ref(),
        };
        act(&mut self.session, &mut outcome)
    }

    /// Packets that the pool holds where this lcore is at home; for tests and tools.
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

/// Turns an echo request into its reply. False for anything else.
fn answer_echo<B: PacketBuf>(packet: &mut B, mac: Mac) -> bool {
    let Ok(Frame { l3, src, net: Net::Ip(ip), .. }) = Frame::parse(packet.bytes()) else { return false };
    icmp::answer_echo_in_place(packet.bytes_mut(), l3, &ip, mac, src).is_ok()
}

/// Turns a solicitation into the advertisement that answers it, in the same buffer. False for anything else, or if
/// the buffer is too small.
fn advertise<B: PacketBuf>(packet: &mut B, target: Address, mac: Mac) -> bool {
    let Ok(Frame { l3, src, net: Net::Ip(ip), .. }) = Frame::parse(packet.bytes()) else { return false };
    if !packet.set_len(l3 + icmp::ADVERTISEMENT_PACKET_LEN) {
        return false;
    }
    let bytes = packet.bytes_mut();
    let Some(macs) = bytes.first_chunk_mut::<12>() else { return false };
    macs[..6].copy_from_slice(&src.0);
    macs[6..].copy_from_slice(&mac.0);
    bytes.get_mut(l3..).is_some_and(|packet| icmp::write_advertisement(packet, target, mac, ip.src).is_ok())
}

/// True if a packet's payload is the body of an Ack that answers no control packet and refuses something.
fn is_refusal(packet: &[u8], payload: Payload) -> bool {
    let begin = usize::from(payload.offset);
    let body = packet.get(begin..begin + usize::from(payload.len)).map(Control::parse);
    matches!(body, Some(Ok(ack)) if ack.action == Action::Ack && ack.answers.is_none() && ack.status != Status::Ok)
}
