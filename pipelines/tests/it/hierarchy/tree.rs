//! A tree of appliances, each behind one port, and the wires between them.

use std::collections::VecDeque;
use std::sync::Arc;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::membership::{JobKind, JobSpec, Parent, Reconfigured, ServerMode, UplinkState};
use pascaline_seal::{Holder, JobKeys};
use pascaline_testkit::{Heard, JOB, UDP_PORT, Worker, port_mac};
use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::frame::{Address, VlanTags};
use pascaline_wire::header::{Element, Header, Kind};

use crate::common::appliance::{Bench, Plan, job};
use crate::sealed::secret;

/// The address at which the children of an appliance find it.
pub(crate) const fn down(node: u8) -> Address {
    Address::from_v4([10, 78, node, 254])
}

/// The address with which an appliance speaks to its parent.
pub(crate) const fn up(node: u8) -> Address {
    Address::from_v4([10, 78, node, 1])
}

/// What becomes of a frame between two appliances: how often it arrives.
pub(crate) type Wire = Box<dyn FnMut(&Heard) -> usize>;

pub(crate) struct Tree {
    pub(crate) nodes: Vec<Bench>,
    parents: Vec<Option<(usize, u16)>>,
    /// Who takes the place of an appliance's parent, and the rank there.
    backups: Vec<Vec<(usize, u16)>>,
    /// Appliances that are gone.
    pub(crate) dead: Vec<bool>,
    fan_in: Vec<u16>,
    /// In front of each one's port; the last of them for those beyond.
    queues: Vec<PortQueue>,
    pub(crate) wire: Wire,
    /// What workers have heard since the last call of `heard_by`, by leaf.
    heard: Vec<Vec<Heard>>,
    /// Gradients on the way to each appliance's parent, by PSN.
    pub(crate) climbed: Vec<Vec<u32>>,
    lives: u16,
}

/// One of the workers below a leaf.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below {
    pub(crate) leaf: usize,
    pub(crate) worker: Worker,
    pub(crate) base: u32,
    pub(crate) workers: u32,
    /// The workers that it stands for, if it is an appliance, which it says it is.
    pub(crate) count: u32,
}

impl Below {
    const fn request(&self) -> Control {
        Control {
            payload: self.worker.payload,
            window: 64,
            cookie: 1,
            psn: self.base,
            ..Control::request(Action::Join, self.worker.session)
        }
    }
}

impl Tree {
    /// Appliances with these fan-ins; each names its parent and its rank there.
    pub(crate) fn new(shape: &[(u16, Option<(usize, u16)>)], like: &JobSpec) -> Self {
        Self::with_backups(shape, &vec![Vec::new(); shape.len()], like)
    }

    /// The same, with backups of each one's parent.
    pub(crate) fn with_backups(
        shape: &[(u16, Option<(usize, u16)>)],
        backups: &[Vec<(usize, u16)>],
        like: &JobSpec,
    ) -> Self {
        Self::of(shape, backups, &[PortQueue::default()], like)
    }

    /// Likewise, with queues of updates like these.
    pub(crate) fn with_queues(
        shape: &[(u16, Option<(usize, u16)>)],
        queues: &[PortQueue],
        like: &JobSpec,
    ) -> Self {
        Self::of(shape, &vec![Vec::new(); shape.len()], queues, like)
    }

    fn of(
        shape: &[(u16, Option<(usize, u16)>)],
        backups: &[Vec<(usize, u16)>],
        queues: &[PortQueue],
        like: &JobSpec,
    ) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            parents: shape.iter().map(|&(_, parent)| parent).collect(),
            backups: backups.to_vec(),
            dead: vec![false; shape.len()],
            fan_in: shape.iter().map(|&(fan_in, _)| fan_in).collect(),
            queues: queues.to_vec(),
            wire: Box::new(|_| 1),
            heard: vec![Vec::new(); shape.len()],
            climbed: vec![Vec::new(); shape.len()],
            lives: 0,
        };
        tree.nodes =
            (0..shape.len()).map(|node| tree.appliance(node, like, tree.first_epoch(node))).collect();
        tree
    }

    /// A root above two leaves of two ranks each.
    pub(crate) fn two_by_two() -> Self {
        Self::new(&[(2, None), (2, Some((0, 0))), (2, Some((0, 1)))], &job(JOB, 2))
    }

    /// The job of an appliance. Of a sealed one only what goes between appliances is sealed, since workers
    /// here seal nothing: with the secret of this byte.
    fn spec(&self, node: usize, like: &JobSpec, secret_byte: u8) -> JobSpec {
        let number = u8::try_from(node).unwrap();
        let above = |(parent, rank): (usize, u16)| Parent {
            endpoint: Endpoint {
                port: 0,
                mac: port_mac(0),
                vlan: VlanTags::NONE,
                address: down(u8::try_from(parent).unwrap()),
                udp_port: UDP_PORT,
                local: up(number),
                local_udp_port: UDP_PORT,
                dscp: 0,
            },
            rank,
            ranks: self.fan_in[parent],
            next_hop: None,
        };
        let ranks = self.parents[node].iter().chain(&self.backups[node]).map(|&(_, rank)| rank);
        let protection = like.keys.as_ref().map(|keys| keys.protection());
        let holder = |rank| Some(Holder::of(&secret(secret_byte), JOB, rank, protection?));
        let keys_above = ranks.filter_map(holder).collect();
        let keys = protection.filter(|_| self.parents[node].is_none());
        let keys = keys.map(|keys| Arc::new(JobKeys::new(&secret(secret_byte), JOB, keys)));
        let backups = self.backups[node].iter().copied().map(above).collect();
        let parent = self.parents[node].map(above);
        let fan_in = self.fan_in[node];
        let mut spec = JobSpec { fan_in, parent, backups, keys, keys_above, ..like.clone() };
        if let (Some(_), JobKind::Shared { server, .. } | JobKind::Updates { server }) =
            (parent, &mut spec.kind)
        {
            // The root alone has one.
            *server = ServerMode::None;
        }
        spec
    }

    fn appliance(&self, node: usize, like: &JobSpec, first_epoch: u16) -> Bench {
        let (number, spec) = (u8::try_from(node).unwrap(), self.spec(node, like, 1));
        let queue = self.queues.get(node).or(self.queues.last()).copied().unwrap_or_default();
        let plain = Plan::one_armed();
        let addresses = [plain.addresses.clone(), vec![down(number), up(number)]].concat();
        Bench::new(&Plan { jobs: vec![spec], addresses, first_epoch, queue, ..plain })
    }

    /// Starts an appliance anew; it has forgotten everything.
    pub(crate) fn restart(&mut self, node: usize, like: &JobSpec) {
        self.lives += 1;
        self.restart_at(node, like, self.first_epoch(node));
    }

    /// Likewise, its generations beginning with this number.
    pub(crate) fn restart_at(&mut self, node: usize, like: &JobSpec, first_epoch: u16) {
        self.nodes[node] = self.appliance(node, like, first_epoch);
    }

    /// Gives the job of an appliance another key.
    pub(crate) fn change_key(&mut self, node: usize, like: &JobSpec, secret_byte: u8) {
        let spec = self.spec(node, like, secret_byte);
        let appliance = &mut self.nodes[node].appliance;
        let changed = appliance.plane.reconfigure(appliance.now, vec![spec], None);
        assert_eq!(changed.into_values().collect::<Vec<_>>(), [Reconfigured::Changed]);
    }

    fn first_epoch(&self, node: usize) -> u16 {
        40 * u16::try_from(node).unwrap() + 15 * self.lives
    }

    /// A Leave of a worker.
    pub(crate) fn leave(&mut self, below: &Below) {
        let worker = below.worker;
        let header = Header { element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) };
        let control = Control::request(Action::Leave, worker.session);
        self.send(below, &worker.frame(&header, &control.to_bytes()));
    }

    /// The workers below a leaf, who know of no generation.
    pub(crate) fn below(&self, leaf: usize) -> Vec<Below> {
        let fan_in = self.fan_in[leaf];
        let below = |rank| Below { leaf, worker: Worker::new(rank, fan_in), base: 0, workers: 0, count: 0 };
        (0..fan_in).map(below).collect()
    }

    pub(crate) fn send(&mut self, below: &Below, frame: &[u8]) {
        self.nodes[below.leaf].io().arrive(0, frame);
    }

    /// Lets so much time pass, in steps of 10 ms, and carries frames as long as there are any.
    pub(crate) fn pass(&mut self, steps: usize) {
        for _ in 0..steps {
            for node in &mut self.nodes {
                node.clock.advance(10_000_000);
                node.appliance.control_turn();
            }
            self.carry();
        }
        for node in &self.nodes {
            assert_eq!(node.appliance.reading().unaccounted(), 0);
        }
    }

    /// Carries frames until there are none.
    fn carry(&mut self) {
        let mut moved = true;
        while moved {
            let mut under_way = VecDeque::new();
            for (at, node) in self.nodes.iter_mut().enumerate() {
                node.appliance.lcores[0].turn();
                node.appliance.control();
                node.appliance.lcores[0].turn();
                under_way.extend(node.io().sent(0).into_iter().map(|frame| (at, frame)));
            }
            moved = !under_way.is_empty();
            for (from, frame) in under_way {
                self.deliver(from, &frame);
            }
        }
    }

    fn deliver(&mut self, from: usize, frame: &[u8]) {
        let heard = Heard::parse(frame);
        let owner = |node: &usize| {
            let number = u8::try_from(*node).unwrap();
            heard.to.0 == down(number) || heard.to.0 == up(number)
        };
        let Some(to) = (0..self.nodes.len()).find(owner) else {
            return self.heard[from].push(heard);
        };
        if self.dead[from] || self.dead[to] {
            return;
        }
        if heard.header.kind == Kind::Gradient {
            self.climbed[from].push(heard.header.psn);
        }
        for _ in 0..(self.wire)(&heard) {
            self.nodes[to].io().arrive(0, frame);
        }
    }

    /// What a worker has heard since the last call; what others have heard stays.
    pub(crate) fn heard_by(&mut self, below: &Below) -> Vec<Heard> {
        let to = (below.worker.address, below.worker.udp_port);
        self.heard[below.leaf].extract_if(.., |heard| heard.to == to).collect()
    }

    /// A Join of a worker, and the answer.
    pub(crate) fn join(&mut self, below: &mut Below, expected: u32, got: u32) -> Control {
        let control = Control { expected, got, ..below.request() };
        self.asked(below, control)
    }

    /// What a worker says inside an operation of one packet, and the answer.
    pub(crate) fn heartbeat(&mut self, below: &mut Below, epoch: u16) -> Control {
        let (got, first) = (control::generation(epoch), below.base);
        let control = Control { got, first, bytes: 8, ..below.request() };
        self.asked(below, control)
    }

    fn asked(&mut self, below: &mut Below, control: Control) -> Control {
        let worker = below.worker;
        let about = worker.header(Kind::Control, 0, 0);
        let about = Header { epoch: 0, element: Element::F32_SUM, ..about };
        let control = Control { workers: below.count, ..control };
        let frame = worker.frame(&about, &control.to_bytes());
        self.send(below, &frame);
        self.pass(1);
        let heard = self.heard_by(below);
        let ack = heard.iter().rfind(|heard| heard.header.kind == Kind::Control).expect("an answer");
        let (payload, _) = ack.header.payload(&ack.body).unwrap();
        let answer = Control::parse(payload).unwrap();
        below.worker.epoch = ack.header.epoch;
        if answer.status == Status::Ok {
            (below.base, below.workers) = (answer.psn, answer.workers);
        }
        answer
    }

    /// All but the first `anew` want to go on with generation `before`: each is told that it cannot. Then the
    /// job is formed from nothing.
    pub(crate) fn form_anew(&mut self, all: &mut [Below], anew: usize, before: u32) {
        let mut ended = vec![false; all.len()];
        for turn in 0..40 {
            for (at, below) in all.iter_mut().enumerate() {
                let resume = if at < anew || ended[at] { 0 } else { before };
                let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
                let answer = self.join(below, resume, got);
                ended[at] |= answer.status == Status::Ok && answer.expected == 0;
            }
        }
        assert!(ended.iter().all(|&ended| ended), "{ended:?}");
        self.form(all, 0);
    }

    /// Lets all workers join until all are told to go, from nothing or from generation `resume`.
    pub(crate) fn form(&mut self, all: &mut [Below], resume: u32) {
        let mut told = vec![None; all.len()];
        for turn in 0..40 {
            for (below, told) in all.iter_mut().zip(&mut told) {
                let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
                *told = Some(self.join(below, resume, got));
            }
            if told.iter().all(|told| told.is_some_and(|told| told.status == Status::Ok)) {
                let resumed = control::named_generation(resume);
                for told in told.iter().flatten() {
                    assert_eq!(control::named_generation(told.expected), resumed);
                }
                assert!(all.iter().all(|below| below.worker.epoch == all[0].worker.epoch));
                assert!(all.iter().all(|below| below.base == all[0].base));
                return;
            }
        }
        panic!("not formed: {told:?}, {:?}", self.uplinks());
    }

    pub(crate) fn uplinks(&self) -> Vec<Option<UplinkState>> {
        let state = |node: &Bench| {
            let membership = node.appliance.plane.membership();
            Some(membership.uplink(JOB, node.appliance.now)?.state)
        };
        self.nodes.iter().map(state).collect()
    }

    /// Lets everything go, and asserts that no packet is left.
    pub(crate) fn end(self) {
        self.nodes.into_iter().for_each(Bench::end);
    }
}

/// Two leaves of two workers who have joined.
pub(crate) fn formed() -> (Tree, Vec<Below>) {
    let mut tree = Tree::two_by_two();
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    (tree, all)
}
