//! A job of `SwitchML`'s clients: they register at the appliance's controller, and send packets that have no
//! numbers but those of a slot and of one of its two sets. The clients are those of `pascaline-worker`.
//!
//! If one ends, or the appliance, all are started again. The connections to the controller lose nothing.

use core::time::Duration;

use pascaline_pipelines::membership::Registration;
use pascaline_wire::switchml::{Body, HEADERS, Packet, Route, headers};
use pascaline_worker::switchml::{Client, Terms};

use crate::appliance::Appliance;
use crate::host::Host;
use crate::plan::{ClientsPlan, MILLI};
use crate::random::mix;
use crate::violation::Violation;
use crate::wheel::Timer;

/// The UDP port of all clients: a result goes to the same one at each.
const CLIENT_PORT: u16 = 4000;
/// Bytes before a datagram of theirs in a frame.
const DATAGRAM: usize = 42;
/// Between two attempts to register, and from a start until the first: no packet of an earlier life is on its
/// way then.
const AGAIN: u64 = MILLI;
const START: u64 = 5 * MILLI;

/// How far the sum of a few small floats may be off: they are scaled to 32 bits.
const ROUNDING: f64 = 0.01;

/// What clients learn when they register.
type Given = pascaline_pipelines::switchml::Terms;

/// A client in its present life.
struct Member {
    client: Client,
    /// What the controller has told it.
    given: Option<Given>,
    /// The operation, from 0.
    operation: usize,
    busy: bool,
    begins: u64,
}

/// All of them.
pub(crate) struct Clients {
    plan: ClientsPlan,
    pub(crate) hosts: Vec<Host>,
    members: Vec<Member>,
    /// Counts how often they have been started.
    take: u64,
    /// The table of the appliance that has the last of them to register.
    table: u64,
    /// The barrier has let all of them go.
    pub(crate) begun: bool,
    /// When each host is going to be woken.
    pub(crate) wakes: Vec<Timer>,
    /// Operations finished, by any client.
    pub(crate) finished: u64,
}

impl Clients {
    /// Clients of which the first one's host has this number in the world.
    pub(crate) fn new(plan: &ClientsPlan, first: usize) -> Self {
        let host = |rank| Host::new(first + usize::from(rank), 1, false);
        let hosts: Vec<Host> = (0..plan.workers).map(host).collect();
        let wakes = vec![Timer::default(); hosts.len()];
        Self {
            plan: plan.clone(),
            hosts,
            members: Vec::new(),
            take: 0,
            table: 0,
            begun: false,
            wakes,
            finished: 0,
        }
    }

    /// All are started, or started again.
    pub(crate) fn start(&mut self, now: u64) {
        (self.take, self.begun) = (self.take + 1, false);
        let ClientsPlan { workers, window, size, timeout, .. } = self.plan;
        let terms = Terms { workers, window, size, timeout };
        let member = |_| {
            let client = Client::new(terms).ok()?;
            Some(Member { client, given: None, operation: 0, busy: false, begins: now + START })
        };
        self.members = (0..workers).filter_map(member).collect();
    }

    /// True once all have finished all operations.
    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.operation == self.plan.operations.len())
    }

    /// A frame reaches a host.
    pub(crate) fn deliver(&mut self, at: usize, now: u64, frame: &[u8]) {
        let (Some(host), Some(member)) = (self.hosts.get(at), self.members.get_mut(at)) else { return };
        let own = |packet: &Packet| {
            (packet.dst_mac, packet.dst, packet.dst_port) == (host.mac, host.address, CLIENT_PORT)
        };
        if let (true, Some(datagram)) =
            (Packet::parse(frame).is_some_and(|it| own(&it)), frame.get(DATAGRAM..))
        {
            member.client.handle(Duration::from_nanos(now), datagram);
        }
    }

    /// A client's turn: it registers, takes sums, begins operations and sends. Returns its frames.
    pub(crate) fn turn(
        &mut self,
        at: usize,
        (now, machine): (u64, u64),
        appliance: Option<&mut Appliance>,
    ) -> Result<Vec<Vec<u8>>, Violation> {
        let waits = self.members.get(at).is_some_and(|member| member.operation < self.plan.operations.len());
        if now > self.plan.deadline && waits {
            let (job, rank) = (self.plan.id, rank(at));
            return Err(Violation::Unexcused { job, rank, why: "its operation has no sum".to_owned() });
        }
        if let Some(appliance) = appliance {
            self.register(at, (now, machine), appliance);
            self.begun |=
                self.members.iter().all(|member| member.given.is_some()) && appliance.in_use >= self.table;
        }
        if !self.begun {
            return Ok(Vec::new());
        }
        self.take_sums(at)?;
        self.begin(at);
        Ok(self.outgoing(at, Duration::from_nanos(now)))
    }

    /// Rank 0 first, then the others.
    fn register(&mut self, at: usize, (now, machine): (u64, u64), appliance: &mut Appliance) {
        let before = self.members.iter().take(at).all(|member| member.given.is_some());
        let (Some(host), Some(member)) = (self.hosts.get(at), self.members.get_mut(at)) else { return };
        if member.given.is_some() || !before || now < member.begins {
            return;
        }
        let (mac, address) = (host.mac, host.address.as_v4().unwrap_or_default());
        let (rank, workers, size) = (u32::from(rank(at)), u32::from(self.plan.workers), self.plan.size);
        let who = Registration { rank, workers, mac, address, size: u32::from(size.code()) };
        if let Some((given, table)) = appliance.register(machine, self.plan.id, &who) {
            member.given = Some(given);
            self.table = table;
        }
    }

    fn take_sums(&mut self, at: usize) -> Result<(), Violation> {
        let Some(member) = self.members.get_mut(at).filter(|member| member.busy) else { return Ok(()) };
        let operation = member.operation;
        let sums: Option<Vec<f64>> = if is_float(operation) {
            member.client.take_floats().map(|sums| sums.into_iter().map(f64::from).collect())
        } else {
            member.client.take_integers().map(|sums| sums.into_iter().map(f64::from).collect())
        };
        let Some(sums) = sums else { return Ok(()) };
        (member.busy, member.operation) = (false, operation + 1);
        self.finished += 1;
        for (index, got) in sums.iter().enumerate() {
            let all = (0..usize::from(self.plan.workers)).map(|rank| self.value(rank, operation, index));
            let expected = f64::from(all.fold(0, i32::wrapping_add));
            if (got - expected).abs() > ROUNDING {
                let (got, expected, elements) = (got.to_string(), expected.to_string(), sums.len());
                let (job, rank) = (self.plan.id, rank(at));
                return Err(Violation::WrongSum { job, rank, operation, index, elements, got, expected });
            }
        }
        Ok(())
    }

    fn begin(&mut self, at: usize) {
        let Some(member) = self.members.get(at).filter(|member| !member.busy) else { return };
        let operation = member.operation;
        let Some(&elements) = self.plan.operations.get(operation) else { return };
        let values: Vec<i32> = (0..elements).map(|index| self.value(at, operation, index)).collect();
        let Some(member) = self.members.get_mut(at) else { return };
        member.busy = true;
        if is_float(operation) {
            #[expect(clippy::cast_precision_loss, reason = "they are small")]
            member.client.start_floats(values.into_iter().map(|value| value as f32).collect());
        } else {
            member.client.start_integers(values);
        }
    }

    /// An integer of any 32 bits, since sums wrap; a small whole number in place of a float.
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits")]
    fn value(&self, rank: usize, operation: usize, index: usize) -> i32 {
        let who = self.take << 48 | (rank as u64) << 40 | (operation as u64) << 32;
        let bits = mix(who ^ index as u64 ^ 0x0051_7cc1);
        if is_float(operation) { 1 + (bits % 1000) as i32 } else { bits as i32 }
    }

    fn outgoing(&mut self, at: usize, now: Duration) -> Vec<Vec<u8>> {
        let (Some(host), Some(member)) = (self.hosts.get(at), self.members.get_mut(at)) else {
            return Vec::new();
        };
        let Some(given) = member.given else { return Vec::new() };
        let own = (host.mac, host.address.as_v4().unwrap_or_default(), CLIENT_PORT);
        let route = Route { to: (given.mac, given.address, given.udp_port), from: own };
        let (mut frames, mut datagram) = (Vec::new(), Vec::new());
        member.client.handle_timeout(now);
        while member.client.poll_transmit(now, &mut datagram) {
            let Some(body) = Body::parse(&datagram) else { continue };
            let summed = datagram.get(HEADERS - DATAGRAM..).unwrap_or_default();
            frames.push([&headers(&route, body), summed].concat());
        }
        frames
    }

    /// When a client has something to do by itself.
    pub(crate) fn due(&self, at: usize, now: u64) -> Option<u64> {
        let member = self.members.get(at)?;
        if !member.busy && member.operation == self.plan.operations.len() {
            return None;
        }
        let timer = member.client.poll_timeout().map(crate::wheel::nanos);
        Some(timer.unwrap_or(now + AGAIN).max(now + 1))
    }
}

/// Every other operation is one of floats.
const fn is_float(operation: usize) -> bool {
    operation % 2 == 1
}

fn rank(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}
