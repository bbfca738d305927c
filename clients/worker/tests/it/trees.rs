//! Several trees, over loopback sockets.

use std::net::SocketAddr;
use std::time::Duration;

use pascaline_worker::{Config, Left, Op, Parts, Worker};

use crate::adversary::Conditions;
use crate::aggregator::Aggregator;
use crate::driver::{Appliance, JOB, RANKS};

/// The appliance of a tree of the test's job.
fn appliance(tree: u16, epoch: u16, conditions: Conditions) -> Appliance {
    let mut aggregator = Aggregator::new(JOB + tree, RANKS, 64);
    aggregator.restart(epoch);
    Appliance::run("127.0.0.1:0", conditions, aggregator)
}

/// Has every rank do the same over these trees.
fn on_every_rank<T: Send>(trees: &[Vec<SocketAddr>], work: impl Fn(u16, &Config) -> T + Sync) -> Vec<T> {
    let (first, trees) = trees.split_first().unwrap();
    let (backups, silence) = (first[1..].to_vec(), Duration::from_millis(60));
    let config = |rank| Config {
        backups: backups.clone(),
        trees: trees.to_vec(),
        silence,
        rank,
        ..appliance_config(first[0])
    };
    std::thread::scope(|scope| {
        let (work, config) = (&work, &config);
        let ranks: Vec<_> = (0..RANKS).map(|rank| scope.spawn(move || work(rank, &config(rank)))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn appliance_config(appliance: SocketAddr) -> Config {
    let deadline = Duration::from_secs(20);
    Config { in_flight: 32, join_deadline: deadline, deadline, ..Config::new(appliance, JOB, 0, RANKS) }
}

fn sums(worker: &mut Worker, rank: u16, elements: i32) {
    let mut tensor: Vec<i32> = (0..elements).map(|i| i * (i32::from(rank) + 1)).collect();
    let report = worker.allreduce(&mut tensor).unwrap();
    assert_eq!(report.bytes, tensor.len() * 4);
    assert!(tensor.iter().zip(0..).all(|(&sum, i)| sum == 6 * i), "{elements}");
}

/// Everything a worker can do is the same over three trees that lose packets.
fn every_collective(rank: u16, config: &Config) -> Vec<u64> {
    let mut worker = Worker::join(config.clone()).unwrap();
    for elements in [0, 1, 1000, 8192, 60_000] {
        sums(&mut worker, rank, elements);
    }
    let own = i32::from(rank);
    worker.barrier().unwrap();
    let mut tensor: Vec<i32> = (0..30_001).map(|i| i + own * 7).collect();
    worker.broadcast(&mut tensor, 1).unwrap();
    assert!(tensor.iter().zip(0..).all(|(&element, i)| element == i + 7));
    let mut tensor = vec![own + 1; 20_000];
    worker.reduce(&mut tensor, Op::Max, 2).unwrap();
    assert_eq!(tensor, vec![own + 1; 20_000], "the root's is the largest, and others keep theirs");
    let (counts, elements) = ([5_000, 0, 15_001], 20_001);
    for parts in [Parts::Even, Parts::Counts(&counts)] {
        let part = parts.of(rank, RANKS, elements).unwrap();
        let mut tensor = vec![own + 1; elements];
        worker.reduce_scatter(&mut tensor, Op::Sum, parts).unwrap();
        assert!(
            tensor.iter().enumerate().all(|(i, &sum)| sum == if part.contains(&i) { 6 } else { own + 1 })
        );
        let mut tensor = vec![own + 1; elements];
        worker.allgather(&mut tensor, parts).unwrap();
        for other in 0..RANKS {
            let part = parts.of(other, RANKS, elements).unwrap();
            assert!(tensor[part].iter().all(|&element| element == i32::from(other) + 1));
        }
    }
    let over = worker.trees().map(|tree| tree.counters.results).collect();
    let total = worker.counters().results;
    let departure = worker.leave();
    assert!(departure.counters.results >= total);
    over
}

#[test]
fn every_collective_goes_over_three_trees() {
    let lossy = Conditions { loss: 0.01, ..Conditions::IDEAL };
    let appliances: Vec<_> = (0..3).map(|tree| appliance(tree, 40, lossy)).collect();
    let trees: Vec<_> = appliances.iter().map(|appliance| vec![appliance.config(0).appliance]).collect();
    for over in on_every_rank(&trees, every_collective) {
        let (least, most) = (over.iter().min().unwrap(), over.iter().max().unwrap());
        assert!(most - least <= most / 8, "each tree carries its part: {over:?}");
    }
}

#[test]
fn a_tree_that_dies_goes_on_at_its_backup() {
    let [first, second, backup] =
        [(0, 40), (1, 60), (1, 90)].map(|(tree, epoch)| appliance(tree, epoch, Conditions::IDEAL));
    let address = |appliance: &Appliance| appliance.config(0).appliance;
    let (trees, dies) = ([vec![address(&first)], vec![address(&second), address(&backup)]], second);
    let ready = std::sync::Barrier::new(usize::from(RANKS) + 1);
    std::thread::scope(|scope| {
        let ranks = scope.spawn(|| {
            on_every_rank(&trees, |rank, config| {
                let mut worker = Worker::join(config.clone()).unwrap();
                sums(&mut worker, rank, 30_000);
                ready.wait();
                ready.wait();
                sums(&mut worker, rank, 30_000);
                let turned: Vec<_> = worker.trees().map(|tree| tree.counters.turned).collect();
                assert_eq!(worker.trees().nth(1).unwrap().appliance, Some(trees[1][1]));
                assert_eq!(worker.leave().left, Left::Everyone);
                turned
            })
        });
        ready.wait();
        drop(dies);
        ready.wait();
        for turned in ranks.join().unwrap() {
            assert!(turned[0] == 0 && turned[1] > 0, "{turned:?}");
        }
    });
}

/// Two ranks wait for the third, which calls nothing.
#[test]
fn what_nobody_completes_fails_over_several_trees() {
    let appliances = [0, 1].map(|tree| appliance(tree, 40, Conditions::IDEAL));
    let trees = appliances.each_ref().map(|appliance| vec![appliance.config(0).appliance]);
    let over = std::sync::Barrier::new(usize::from(RANKS));
    on_every_rank(&trees, |rank, config| {
        let mut worker = Worker::join(config.clone()).unwrap();
        if rank != 2 {
            worker.set_deadline(Duration::from_millis(100));
            worker.allreduce(&mut vec![1_i32; 30_000]).unwrap_err();
        }
        over.wait();
    });
}
