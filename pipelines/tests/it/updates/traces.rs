//! Any trace of updates and answers over several lcores: nothing is lost that is not counted.

use core::num::NonZeroU64;

use pascaline_buffer::HeapPool;
use pascaline_pipelines::PortQueue;
use pascaline_pipelines::updates::Fate;
use pascaline_queue::{Config, Discipline};
use pascaline_telemetry::Counter;
use pascaline_wire::control::Action;
use pascaline_wire::header::{Flags, Header, Kind};
use proptest::prelude::*;

use super::{CLUSTERS, FromQueue, RANKS, SERVER_PORT, host, plan, update, worker};
use crate::common::appliance::Appliance;
use pascaline_testkit::{Clock, Heard, MemoryIo, Worker};

#[derive(Debug, Clone)]
enum Step {
    /// An update; `age` before now, or after it.
    Update {
        lcore: usize,
        cluster: u16,
        rank: u16,
        reward: i8,
        age: i64,
        bad: u8,
    },
    /// The server answers.
    Ack {
        lcore: usize,
        cluster: u16,
        rank: u16,
        alone: bool,
    },
    Turn(usize),
    /// What the server's port takes from now on.
    Room(usize, usize),
    Advance(u64),
    /// A cluster's generation ends.
    Rejoin(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let update = (
        0usize..3,
        0..CLUSTERS,
        0..RANKS,
        -4i8..4,
        -5i64..2_000_000,
        prop_oneof![9 => Just(0u8), 1 => 1u8..5],
    )
        .prop_map(|(lcore, cluster, rank, reward, age, bad)| Step::Update {
            lcore,
            cluster,
            rank,
            reward,
            age,
            bad,
        });
    let room = prop_oneof![0usize..3, Just(usize::MAX)];
    prop_oneof![
        20 => update,
        2 => (0usize..3, 0..CLUSTERS, 0..RANKS + 1, any::<bool>())
            .prop_map(|(lcore, cluster, rank, alone)| Step::Ack { lcore, cluster, rank, alone }),
        6 => (0usize..3).prop_map(Step::Turn),
        2 => (0usize..3, room).prop_map(|(lcore, room)| Step::Room(lcore, room)),
        2 => (0u64..3_000_000).prop_map(Step::Advance),
        1 => (0..CLUSTERS).prop_map(Step::Rejoin),
    ]
}

fn queues() -> impl Strategy<Value = PortQueue> {
    let discipline = prop_oneof![1 => Just(Discipline::Fifo), 4 => Just(Discipline::Olaf)];
    let threshold =
        prop_oneof![Just(f32::INFINITY), (0u8..12).prop_map(|quarters| f32::from(quarters) / 4.0)];
    (discipline, 1u16..6, threshold, prop::option::of(1_000_000u64..1_000_000_000)).prop_map(
        |(discipline, segments, reward_threshold, rate)| PortQueue {
            queue: Config { discipline, segments, reward_threshold, ..Config::default() },
            rate: rate.and_then(NonZeroU64::new),
        },
    )
}

struct World {
    appliance: Appliance<MemoryIo>,
    workers: Vec<Vec<Worker>>,
    pool: HeapPool,
    clock: Clock,
    psn: u32,
    /// What the server has heard: updates, and what they stood for.
    heard: (u64, u64),
}

impl World {
    fn new(lcores: usize, queue: PortQueue) -> Self {
        let (pool, clock) = (HeapPool::new(), Clock::default());
        clock.advance(1_000_000_000);
        let ios = (0..lcores).map(|_| MemoryIo::new(2, &pool, &clock)).collect();
        let appliance = Appliance::new(&plan(queue), ios);
        let workers =
            (0..CLUSTERS).map(|cluster| (0..RANKS).map(|rank| worker(cluster, rank)).collect()).collect();
        let mut world = Self { appliance, workers, pool, clock, psn: 0, heard: (0, 0) };
        for cluster in 0..CLUSTERS {
            world.join(cluster);
            let server = Worker { job: world.workers[usize::from(cluster)][0].job, ..host() };
            world.arrive(0, &server, &server.control(Action::Serve));
            world.appliance.turn();
        }
        world.listen().expect("nothing but control");
        world
    }

    fn arrive(&mut self, lcore: usize, from: &Worker, frame: &[u8]) {
        let lcores = self.appliance.lcores.len();
        self.appliance.lcores[lcore % lcores].io().arrive(from.port, frame);
    }

    fn join(&mut self, cluster: u16) {
        let at = usize::from(cluster);
        for rank in 0..usize::from(RANKS) {
            self.workers[at][rank].session += 1;
            let worker = self.workers[at][rank];
            self.arrive(rank, &worker, &worker.control(Action::Join));
            // A second one, for what is in an inbox or on a stage.
            (0..2).for_each(|_| self.appliance.turn());
        }
        let epoch = self.appliance.plane.membership().status()[at].epoch;
        self.workers[at].iter_mut().for_each(|worker| worker.epoch = epoch);
    }

    fn update(&mut self, (lcore, cluster, rank): (usize, u16, u16), reward: i8, age: i64, bad: u8) {
        let worker = self.workers[usize::from(cluster)][usize::from(rank)];
        let reward = if bad == 1 { f32::NAN } else { f32::from(reward) / 2.0 };
        let ahead = if bad == 2 { 2_000_000_000 } else { 0 };
        let generated = self.clock.now().checked_add_signed(ahead - age).unwrap_or(0);
        self.psn += 1;
        let mut frame = update(&worker, self.psn, &[1; 3], reward, generated);
        if bad == 3 {
            // The flag that announces the trailer.
            frame[44] = 0;
        } else if bad == 4 {
            frame.truncate(70);
        }
        self.arrive(lcore, &worker, &frame);
    }

    /// Takes what has been sent; every update carries its count.
    fn listen(&mut self) -> Result<(), TestCaseError> {
        for lcore in &mut self.appliance.lcores {
            for frame in lcore.io().sent(SERVER_PORT) {
                let heard = Heard::parse(&frame);
                if heard.header.kind != Kind::Update {
                    continue;
                }
                let got = FromQueue::parse(&heard);
                prop_assert_eq!(&got.values, &vec![i32::from(got.header.count); 3]);
                prop_assert!(got.header.psn <= self.psn && got.header.rank < RANKS);
                self.heard.0 += 1;
                self.heard.1 += u64::from(got.header.count);
            }
            lcore.io().ports[0].sent().for_each(drop);
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Update { lcore, cluster, rank, reward, age, bad } => {
                self.update((lcore, cluster, rank), reward, age, bad);
            }
            Step::Ack { lcore, cluster, rank, alone } => {
                let of = self.workers[usize::from(cluster)][0];
                let server = Worker { job: of.job, epoch: of.epoch, fan_in: RANKS, ..host() };
                let flags = if alone { Flags::BYPASS } else { Flags::NONE };
                let header = Header { rank, flags, ..server.header(Kind::Ack, 0, 1) };
                self.arrive(lcore, &server, &server.frame(&header, &[7; 12]));
            }
            Step::Turn(lcore) => {
                let lcores = self.appliance.lcores.len();
                self.appliance.lcores[lcore % lcores].turn();
            }
            Step::Room(lcore, room) => {
                let lcores = self.appliance.lcores.len();
                self.appliance.lcores[lcore % lcores].io().ports[SERVER_PORT].room = room;
            }
            Step::Advance(nanos) => self.clock.advance(nanos),
            Step::Rejoin(cluster) => self.join(cluster),
        }
        self.listen()
    }

    /// Everything that has come in is brought to its end.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for lcore in &mut self.appliance.lcores {
            lcore.io().ports[SERVER_PORT].room = usize::MAX;
        }
        // The slowest shaper needs a millisecond for an update.
        for _ in 0..100 {
            self.clock.advance(1_000_000);
            self.appliance.turn();
            self.listen()?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let reading = self.appliance.reading();
        prop_assert_eq!(reading.unaccounted(), 0);
        let queue = self.appliance.queues[SERVER_PORT].read();
        prop_assert_eq!((queue.waiting, queue.get(Fate::Unsent)), (0, 0));
        // In = out + dropped: of updates ...
        let inside = [Fate::Appended, Fate::Aggregated, Fate::Replaced, Fate::Renewed, Fate::Preferred];
        let inside: u64 = inside.map(|fate| queue.get(fate)).iter().sum();
        prop_assert!(reading.get(Counter::Absorbed) >= inside);
        prop_assert_eq!(queue.get(Fate::Appended), queue.get(Fate::Departed) + queue.get(Fate::Stale));
        prop_assert_eq!(queue.get(Fate::Departed), self.heard.0);
        prop_assert_eq!(reading.get(Counter::ServerSent), self.heard.0);
        // ... and of what they stand for. Stale ones have been taken out of the queue, but not been sent.
        let [accepted, departed, given_up @ ..] = queue.contributions().map(|(_, count)| count);
        prop_assert_eq!(accepted, departed + given_up.iter().sum::<u64>());
        prop_assert_eq!(departed, self.heard.1, "what was given up has not departed");
        // Each class of the histogram is of departures.
        prop_assert_eq!(queue.classes().iter().sum::<u64>(), self.heard.0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_goes_in_comes_out_or_is_counted(
        lcores in 1usize..4,
        queue in queues(),
        steps in proptest::collection::vec(step(), 0..300),
    ) {
        let mut world = World::new(lcores, queue);
        for step in steps {
            world.step(step)?;
            let waiting = world.appliance.queues[SERVER_PORT].read().waiting;
            prop_assert!(waiting <= u64::from(queue.queue.segments));
            if queue.queue.discipline == Discipline::Olaf {
                prop_assert!(waiting <= u64::from(CLUSTERS), "at most one for each cluster");
            }
        }
        world.settle()?;
        world.check()?;
        let pool = world.pool.clone();
        drop(world);
        prop_assert_eq!(pool.live(), 0);
    }
}
