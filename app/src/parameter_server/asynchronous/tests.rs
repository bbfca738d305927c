use pascaline_aggregator::Order;
use pascaline_wire::{Element, Flags};

use super::*;

const JOB: ServedJob =
    ServedJob { job: 1, fan_in: 2, epoch: 5, needed: 2, order: Order::Arrival, payload: 8 };

/// The weights that a worker begins with.
fn first<const N: usize>(epoch: u16, weights: [f32; N]) -> Vec<u8> {
    let about = Header::about(Kind::Gradient, Element::F32_SUM, 1, epoch);
    let header = Header { flags: Flags::BYPASS, psn: u32::MAX, fan_in: 2, count: 1, ..about };
    header.to_bytes().into_iter().chain(weights.into_iter().flat_map(f32::to_le_bytes)).collect()
}

fn trained() -> AsyncLoop {
    let mut server = AsyncLoop::new(Settings::default(), [1]);
    server.set_job(&JOB);
    assert_eq!(server.receive(0, &first(5, [1.0, 2.0])), None);
    server
}

fn weights(server: &AsyncLoop) -> Option<Vec<f32>> {
    server.server.keep(1).map(|kept| kept.weights)
}

#[test]
fn a_model_waits_for_the_workers_of_an_appliance_that_has_started_again() {
    let mut server = trained();
    for tenths in 0..100 {
        server.await_job(Duration::from_millis(100 * tenths), 1);
    }
    server.set_job(&ServedJob { epoch: 9, ..JOB });
    assert_eq!(server.receive(0, &first(9, [7.0, 7.0])), None);
    assert_eq!(weights(&server), Some(vec![1.0, 2.0]), "the first weights win");
    // Long after that nobody is in the job for as long again.
    server.await_job(Duration::from_secs(100), 1);
    server.await_job(Duration::from_secs(109), 1);
    assert_eq!(weights(&server), Some(vec![1.0, 2.0]));
}

#[test]
fn who_comes_long_after_all_have_left_begins_anew() {
    let mut server = trained();
    server.await_job(Duration::from_secs(100), 1);
    server.await_job(Duration::from_secs(110), 1);
    assert_eq!(weights(&server), None);
    server.set_job(&ServedJob { epoch: 6, ..JOB });
    assert_eq!(server.receive(0, &first(6, [7.0, 7.0])), None);
    assert_eq!(weights(&server), Some(vec![7.0, 7.0]));
}

#[test]
fn a_model_that_a_file_keeps_goes_on_whenever_workers_come() {
    let directory = std::env::temp_dir().join(format!("pascaline-models-{}", std::process::id()));
    let mut server = AsyncLoop::new(Settings::default(), [1]);
    server.keep_in(&directory).unwrap();
    server.set_job(&JOB);
    assert_eq!(server.receive(0, &first(5, [1.0, 2.0])), None);
    server.await_job(Duration::from_secs(0), 1);
    server.await_job(Duration::from_secs(1000), 1);
    server.await_job(Duration::from_secs(2000), 1);
    server.await_job(Duration::from_secs(2010), 1);
    let ages = server.snapshot(0).unwrap().clusters;
    assert!(ages.is_empty(), "nobody there for long: it counts for nothing among the clusters");
    server.set_job(&ServedJob { epoch: 6, ..JOB });
    assert_eq!(weights(&server), Some(vec![1.0, 2.0]));
    // The appliance no longer knows the job, for a while.
    server.remove_job(1);
    server.set_job(&ServedJob { epoch: 7, ..JOB });
    assert_eq!(weights(&server), Some(vec![1.0, 2.0]));
    server.flush().unwrap();
    assert!(directory.join("job-1.model").exists());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_model_of_another_length_does_not_take_the_place_of_the_one_before() {
    let directory = std::env::temp_dir().join(format!("pascaline-lengths-{}", std::process::id()));
    let begin = || {
        let mut server = AsyncLoop::new(Settings::default(), [1]);
        server.keep_in(&directory).unwrap();
        server
    };
    let mut server = begin();
    server.set_job(&JOB);
    server.receive(0, &first(5, [1.0, 2.0]));
    // In the same life, and of an age that no second has passed for.
    server.set_job(&ServedJob { epoch: 6, payload: 16, ..JOB });
    server.receive(0, &first(6, [3.0, 4.0, 5.0]));
    server.flush().unwrap();
    assert!(directory.join("job-1.model.1").exists());
    // After a start, with a model that is a float longer in packets that are as long.
    let mut server = begin();
    server.set_job(&ServedJob { epoch: 7, payload: 16, ..JOB });
    assert_eq!(weights(&server), Some(vec![3.0, 4.0, 5.0]));
    server.receive(0, &first(7, [6.0; 4]));
    assert_eq!(weights(&server), Some(vec![6.0; 4]));
    server.flush().unwrap();
    drop(server);
    let floats = |name: &str| {
        let bytes = std::fs::read(directory.join(name)).unwrap();
        pascaline_ps::asynchronous::Kept::from_bytes(&bytes).unwrap().weights
    };
    assert_eq!(floats("job-1.model.1"), [1.0, 2.0]);
    assert_eq!(floats("job-1.model.2"), [3.0, 4.0, 5.0]);
    assert_eq!(floats("job-1.model"), [6.0; 4]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_log_is_written_out_each_second() {
    const SECOND: u64 = 1_000_000_000;
    let file = std::env::temp_dir().join(format!("pascaline-log-{}.jsonl", std::process::id()));
    let mut server = AsyncLoop::new(Settings::default(), [1]);
    server.log_to(&file).unwrap();
    let lines = || std::fs::read_to_string(&file).unwrap().lines().count();
    for (epoch, at, written) in [(5, SECOND, 1), (6, SECOND + 1, 1), (7, 2 * SECOND, 3)] {
        server.set_job(&ServedJob { epoch, ..JOB });
        server.remove_job(1);
        server.set_job(&ServedJob { epoch, ..JOB });
        assert_eq!(server.receive(at, &first(epoch, [1.0, 2.0])), None);
        assert_eq!(lines(), written, "at {at}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_model_that_cannot_be_written_is_written_once_it_can() {
    let directory = std::env::temp_dir().join(format!("pascaline-again-{}", std::process::id()));
    let begin = || {
        let mut server = AsyncLoop::new(Settings::default(), [1]);
        server.keep_in(&directory).unwrap();
        server.set_job(&JOB);
        assert_eq!(server.receive(0, &first(5, [1.0, 2.0])), None);
        server.keep(Duration::ZERO);
        server
    };
    let failures = |server: &AsyncLoop| server.snapshot(0).unwrap().checkpoints.unwrap().1;
    std::fs::create_dir_all(directory.join(".job-1.new")).unwrap();
    let mut server = begin();
    while failures(&server) == 0 {
        std::thread::yield_now();
    }
    // Nothing changes about the model any more.
    std::fs::remove_dir(directory.join(".job-1.new")).unwrap();
    server.flush().unwrap();
    let kept = std::fs::read(directory.join("job-1.model")).unwrap();
    assert_eq!(pascaline_ps::asynchronous::Kept::from_bytes(&kept).unwrap().weights, [1.0, 2.0]);
    std::fs::remove_file(directory.join("job-1.model")).unwrap();
    // Who ends the server is told if it never could.
    std::fs::create_dir(directory.join(".job-1.new")).unwrap();
    let told = begin().flush().unwrap_err().to_string();
    assert!(told.starts_with("the latest models of jobs [1] are not kept in "), "{told}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn models_of_as_many_jobs_as_there_are_are_kept() {
    const JOBS: u16 = 150;
    let directory = std::env::temp_dir().join(format!("pascaline-many-{}", std::process::id()));
    let mut server = AsyncLoop::new(Settings::default(), 1..=JOBS);
    server.keep_in(&directory).unwrap();
    for job in 1..=JOBS {
        server.set_job(&ServedJob { job, ..JOB });
        let mut weights = first(5, [f32::from(job), 0.0]);
        weights[4..6].copy_from_slice(&job.to_be_bytes());
        assert_eq!(server.receive(0, &weights), None);
    }
    server.flush().unwrap();
    assert!((1..=JOBS).all(|job| directory.join(format!("job-{job}.model")).exists()));
    std::fs::remove_dir_all(directory).unwrap();
}
