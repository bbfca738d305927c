//! The driver over loopback sockets, with the tests' aggregator on a thread.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Header, Kind};
use pascaline_worker::Obstacle;
use pascaline_worker::udp::ConfigError;
use pascaline_worker::way::CLOSED;
use pascaline_worker::{
    AllreduceError, Config, Element, Failure, Hints, JoinError, JoinFailure, Left, Op, Reason, Rejection,
    StartError, Worker, bf16, f16,
};

use crate::adversary::{Conditions, chance};
use crate::aggregator::{Aggregator, Out, packet};

pub(crate) const JOB: u16 = 3;
pub(crate) const RANKS: u16 = 3;

/// The aggregator on a thread; stopped when dropped.
pub(crate) struct Appliance {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Appliance {
    /// Serves until dropped; `answer` turns a datagram into datagrams by rank.
    pub(crate) fn serve(bind: &str, mut answer: impl FnMut(&[u8]) -> Vec<Out> + Send + 'static) -> Self {
        let socket = UdpSocket::bind(bind).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut peers = BTreeMap::new();
            let mut buffer = vec![0; 1 << 16];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                let (header, _) = Header::parse(&buffer[..length]).unwrap();
                peers.insert((header.job, header.rank), peer);
                for (rank, bytes) in answer(&buffer[..length]) {
                    if let Some(peer) = peers.get(&(header.job, rank)) {
                        // A worker that has gone refuses packets.
                        let _ = socket.send_to(&bytes, peer);
                    }
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    pub(crate) fn start(bind: &str, conditions: Conditions) -> Self {
        Self::run(bind, conditions, Aggregator::new(JOB, RANKS, 64))
    }

    pub(crate) fn run(bind: &str, conditions: Conditions, mut aggregator: Aggregator) -> Self {
        let mut random = Rng::with_seed(1);
        Self::serve(bind, move |datagram| {
            if chance(&mut random, conditions.loss) {
                return Vec::new();
            }
            let mut answers = aggregator.handle(datagram, &conditions, &mut random);
            answers.retain(|_| !chance(&mut random, conditions.loss));
            answers
        })
    }

    /// One that has several jobs.
    pub(crate) fn of_jobs(
        bind: &str,
        conditions: Conditions,
        jobs: impl IntoIterator<Item = Aggregator>,
    ) -> Self {
        let mut random = Rng::with_seed(1);
        let mut jobs: Vec<_> = jobs.into_iter().collect();
        Self::serve(bind, move |datagram| {
            let (header, _) = Header::parse(datagram).unwrap();
            let at = usize::from(header.job - JOB);
            jobs[at].handle(datagram, &conditions, &mut random)
        })
    }

    pub(crate) fn config(&self, rank: u16) -> Config {
        Config {
            in_flight: 32,
            join_deadline: Duration::from_secs(20),
            deadline: Duration::from_secs(20),
            linger: Duration::from_secs(5),
            accept_partial: true,
            ..Config::new(self.address, JOB, rank, RANKS)
        }
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok(), "the aggregator found fault with a packet");
    }
}

/// Runs every rank on a thread of its own.
pub(crate) fn on_every_rank<T: Send>(
    appliance: &Appliance,
    work: impl Fn(u16, Worker) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let start = |rank| scope.spawn(move || work(rank, Worker::join(appliance.config(rank)).unwrap()));
        let threads: Vec<_> = (0..RANKS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn sums_of_all_shapes(rank: u16, mut worker: Worker) -> u64 {
    assert_eq!(worker.membership().spread, 64);
    let rank = i32::from(rank);
    // Empty, less than a packet, exactly two, a short last one, and many.
    for elements in [0_i32, 1, 512, 1000, 100_003] {
        let mut tensor: Vec<i32> = (0..elements).map(|i| i * (rank + 1)).collect();
        let report = worker.allreduce(&mut tensor).unwrap();
        assert_eq!(report.packets, elements.unsigned_abs().div_ceil(256));
        assert!(tensor.iter().zip(0..).all(|(&sum, i)| sum == 6 * i), "{elements}");

        let mut tensor: Vec<f32> = tensor.iter().map(|&sum| sum as f32 / 2.0).collect();
        worker.allreduce(&mut tensor).unwrap();
        assert!(tensor.iter().zip(0..).all(|(&sum, i)| sum == 9.0 * i as f32), "{elements}");
        worker.tend().unwrap();
    }
    let mut tensor = [i32::MAX - 1, 0];
    let report = worker.allreduce(&mut tensor).unwrap();
    assert_eq!((tensor, report.counters.overflows), ([i32::MAX, 0], 1));
    let departure = worker.leave();
    assert_eq!(departure.left, Left::Everyone);
    assert_eq!(departure.counters.not_sent, 0);
    departure.counters.retransmissions
}

/// Every type and operation, with values whose combinations every type has.
fn every_type_and_operation(rank: u16, mut worker: Worker) {
    fn check<T: Element + PartialEq + std::fmt::Debug>(worker: &mut Worker, rank: u16, from: fn(i16) -> T) {
        let [sum, least, most, mean] = [9, -1, 5, 3];
        for (op, expected) in [(Op::Sum, sum), (Op::Min, least), (Op::Max, most), (Op::Mean, mean)] {
            // -1, 5, 5 by rank.
            let mut tensor: Vec<T> = (0..1000).map(|_| from(if rank == 0 { -1 } else { 5 })).collect();
            let hints = Hints { layer: 2, layers: 3, remaining: Some(Duration::from_millis(10)) };
            let report = worker.allreduce_with(&mut tensor, op, hints).unwrap();
            assert!(tensor.iter().all(|got| *got == from(expected)), "{op:?}: {:?}", tensor[0]);
            assert_eq!(report.packets, u32::try_from(size_of_val(&tensor[..]).div_ceil(1024)).unwrap());
            assert!(report.priority >= 1 && report.partial.is_none());
        }
    }
    check::<f32>(&mut worker, rank, f32::from);
    check::<f64>(&mut worker, rank, f64::from);
    check::<i32>(&mut worker, rank, i32::from);
    check::<f16>(&mut worker, rank, |x| f16::from_f32(x.into()));
    check::<bf16>(&mut worker, rank, |x| bf16::from_f32(x.into()));
    let mut thirds = [f64::from(rank)];
    worker.allreduce_with(&mut thirds, Op::Mean, Hints::default()).unwrap();
    assert_eq!(thirds, [1.0]);
    assert_eq!(worker.leave().left, Left::Everyone);
}

#[test]
fn types_and_operations() {
    on_every_rank(&Appliance::start("127.0.0.1:0", Conditions::IDEAL), every_type_and_operation);
}

#[test]
fn an_appliance_that_restarts_is_gone_on_with() {
    let mut aggregator = Aggregator::new(JOB, RANKS, 64);
    let mut gradients = 0;
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let (header, _) = Header::parse(datagram).unwrap();
        gradients += u32::from(header.kind == Kind::Gradient);
        if header.kind == Kind::Gradient && gradients == 500 {
            aggregator.restart(77);
        }
        aggregator.handle(datagram, &Conditions::IDEAL, &mut Rng::with_seed(1))
    });
    on_every_rank(&appliance, |rank, mut worker| {
        let mut tensor: Vec<i32> = (0..100_000).map(|i| i * (i32::from(rank) + 1)).collect();
        let report = worker.allreduce(&mut tensor).unwrap();
        assert!(tensor.iter().zip(0..).all(|(&sum, i)| sum == 6 * i));
        assert_eq!((report.counters.resumed, worker.membership().epoch), (1, 77));
        assert_eq!(worker.leave().left, Left::Everyone);
    });
}

#[test]
fn results_without_a_rank_are_passed_on_among_the_others() {
    let conditions = Conditions { loss: 0.06, forget_result: 1.0, ..Conditions::IDEAL };
    let mut aggregator = Aggregator::new(JOB, RANKS, 64);
    aggregator.threshold = Some(2);
    let appliance = Appliance::run("127.0.0.1:0", conditions, aggregator);
    let answered = on_every_rank(&appliance, |rank, mut worker| {
        if rank == 2 {
            worker.leave();
            return 0;
        }
        let mut tensor = vec![f64::from(rank) + 1.0; 20_000];
        let report = worker.allreduce_with(&mut tensor, Op::Mean, Hints::default()).unwrap();
        assert!(tensor.iter().all(|&mean| mean == 1.5));
        let partial = report.partial.unwrap();
        assert_eq!((partial.results, partial.least_count), (report.packets, 2));
        assert_eq!(partial.missing, [2].into_iter().collect());
        worker.leave().counters.reminders_answered
    });
    assert!(answered.iter().sum::<u64>() > 0, "{answered:?}");
}

#[test]
fn a_silent_worker_shows_that_it_is_alive_when_tended() {
    let heartbeats = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&heartbeats);
    let mut aggregator = Aggregator::new(JOB, 1, 64);
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let (header, body) = Header::parse(datagram).unwrap();
        let join = header.kind == Kind::Control && Control::parse(body).unwrap().action == Action::Join;
        counted.fetch_add(u64::from(join), Ordering::Relaxed);
        aggregator.handle(datagram, &Conditions::IDEAL, &mut Rng::with_seed(1))
    });
    let mut worker = Worker::join(Config { ranks: 1, ..appliance.config(0) }).unwrap();
    worker.allreduce(&mut [1.0_f32]).unwrap();
    let before = heartbeats.load(Ordering::Relaxed);
    let began = Instant::now();
    while heartbeats.load(Ordering::Relaxed) < before + 2 {
        worker.tend().unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "no heartbeat");
        std::thread::yield_now();
    }
    assert_eq!(worker.leave().left, Left::Everyone);
}

#[test]
fn a_worker_that_is_dropped_has_left() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    on_every_rank(&appliance, |rank, mut worker| {
        worker.allreduce(&mut [1.0_f32; 8]).unwrap();
        if rank > 0 {
            assert_eq!(worker.leave().left, Left::Everyone);
        }
    });
}

#[test]
fn ipv4() {
    on_every_rank(&Appliance::start("127.0.0.1:0", Conditions::IDEAL), sums_of_all_shapes);
}

#[test]
fn ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    }
    on_every_rank(&Appliance::start("[::1]:0", Conditions::IDEAL), sums_of_all_shapes);
}

#[test]
fn losses_and_forgotten_results_are_recovered() {
    let conditions = Conditions { loss: 0.03, forget_result: 0.3, ..Conditions::IDEAL };
    let resent = on_every_rank(&Appliance::start("127.0.0.1:0", conditions), sums_of_all_shapes);
    assert!(resent.iter().all(|&resent| resent > 0), "{resent:?}");
}

/// One whose job has four ranks.
pub(crate) fn refusing() -> Appliance {
    Appliance::serve("127.0.0.1:0", |datagram| {
        let (header, body) = Header::parse(datagram).unwrap();
        let request = Control::parse(body).unwrap();
        let ack = Control {
            action: Action::Ack,
            status: Status::FanInMismatch,
            answers: Some(Action::Join),
            expected: 4,
            got: u32::from(header.fan_in),
            ..request
        };
        vec![(header.rank, packet(&header, &ack.to_bytes()))]
    })
}

#[test]
fn a_refusal_names_both_numbers() {
    let error = Worker::join(refusing().config(0)).unwrap_err();
    let expected = Rejection { job: JOB, rank: 0, expected: 4, got: 3, reason: Reason::RankCount };
    assert!(matches!(&error, JoinError::Failed { failure: JoinFailure::Rejected(r), .. } if *r == expected));
    assert!(error.to_string().ends_with("job 3 has 4 ranks, this worker was started with 3"), "{error}");
}

#[test]
fn nobody_listening_is_told_before_the_deadline() {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let began = Instant::now();
    let error = Worker::join(Config::new(address, JOB, 0, RANKS)).unwrap_err();
    // It may be starting.
    assert!(began.elapsed() >= CLOSED && began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let JoinError::Failed { failure: JoinFailure::NoAnswer { report: Some(report), .. }, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(report.obstacle, Obstacle::NothingListens);
    let text = error.to_string();
    assert!(text.contains("nothing listens") && text.contains(&address.to_string()), "{text}");
}

#[test]
fn an_appliance_that_disappears_makes_the_allreduce_fail_in_time() {
    let appliance = Appliance::start("127.0.0.1:0", Conditions::IDEAL);
    let address = appliance.address;
    let mut workers = on_every_rank(&appliance, |_, worker| worker);
    drop(appliance);
    let mut worker = workers.remove(0);
    let mut tensor = vec![1.0_f32; 10_000];
    // The deadline of the configuration would take long.
    assert!(worker.set_deadline(Duration::from_millis(200)) > Duration::from_secs(1));
    let began = Instant::now();
    let error = worker.allreduce(&mut tensor).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10));
    let AllreduceError::Failed(Failure::Deadline(progress)) = error else { panic!("{error}") };
    assert_eq!((progress.completed, progress.packets, progress.oldest_missing), (0, 40, 0));
    let told = progress.unreachable.map(|report| report.obstacle);
    assert_eq!(told, Some(Obstacle::NothingListens), "nothing listens at {address}");
    let again = worker.allreduce(&mut tensor).unwrap_err();
    assert!(matches!(again, AllreduceError::Start(StartError::Broken)), "{again}");
}

#[test]
fn a_refused_packet_makes_the_allreduce_fail_at_once() {
    let mut aggregator = Aggregator::new(JOB, 1, 64);
    let appliance = Appliance::serve("127.0.0.1:0", move |datagram| {
        let (header, _) = Header::parse(datagram).unwrap();
        if header.kind == Kind::Control {
            return aggregator.handle(datagram, &Conditions::IDEAL, &mut Rng::with_seed(1));
        }
        let ack = Control {
            status: Status::ElementMismatch,
            expected: 1,
            got: 2,
            ..Control::request(Action::Ack, 0)
        };
        vec![(header.rank, packet(&Header { kind: Kind::Control, ..header }, &ack.to_bytes()))]
    });
    let mut worker = Worker::join(Config { ranks: 1, ..appliance.config(0) }).unwrap();
    let error = worker.allreduce(&mut [1_i32; 5]).unwrap_err();
    let expected = Rejection { job: JOB, rank: 0, expected: 1, got: 2, reason: Reason::Element };
    let AllreduceError::Failed(Failure::Rejected { rejection, .. }) = &error else { panic!("{error}") };
    assert_eq!(*rejection, expected, "{error}");
}

#[test]
fn configurations_that_cannot_work() {
    let good = Config::new("127.0.0.1:1".parse().unwrap(), JOB, 0, RANKS);
    assert_eq!(good.check(), Ok(()));
    let check = |change: fn(&mut Config)| {
        let mut config = good.clone();
        change(&mut config);
        config.check().unwrap_err()
    };
    assert_eq!(check(|config| config.rank = 3), ConfigError::Rank { rank: 3, ranks: 3 });
    assert_eq!(check(|config| config.ranks = 0), ConfigError::Ranks { ranks: 0 });
    assert_eq!(check(|config| config.ranks = 1025), ConfigError::Ranks { ranks: 1025 });
    assert_eq!(check(|config| config.payload = 1020), ConfigError::Payload { payload: 1020 });
    assert_eq!(check(|config| config.spread = 0), ConfigError::NothingInFlight);
    let family = check(|config| config.bind = Some("[::1]:0".parse().unwrap()));
    assert!(matches!(family, ConfigError::Family { .. }));
}

#[test]
fn without_a_payload_it_offers_what_the_path_takes() {
    let v4 = Config::new("127.0.0.1:1".parse().unwrap(), JOB, 0, RANKS);
    let v6 = Config::new("[::1]:1".parse().unwrap(), JOB, 0, RANKS);
    let offer = |config: &Config, mtu| {
        let (identity, flexible) = config.offer(mtu);
        (identity.payload, flexible)
    };
    assert_eq!(
        [None, Some(1500), Some(9000)].map(|mtu| offer(&v4, mtu)),
        [1448, 1448, 8944].map(|n| (n, true))
    );
    assert_eq!([1500, 9000].map(|mtu| offer(&v6, Some(mtu))), [1424, 8928].map(|n| (n, true)));
    assert_eq!([30, 65_536].map(|mtu| offer(&v4, Some(mtu))), [8, 65_280].map(|n| (n, true)));
    assert_eq!(offer(&Config { payload: 512, ..v4 }, Some(1500)), (512, false));
}

#[test]
fn a_worker_may_move_to_another_thread() {
    const fn is_send<T: Send>() {}
    is_send::<Worker>();
}
