use super::*;
use crate::observe::explain::Terms;
use pascaline_telemetry::{JobCells, Made, Moment};
use pascaline_wire::trailer::RankReports;
use std::sync::Arc;

fn input(id: u16, ranks: u16, contributions: u32) -> JobInput {
    let cells = Arc::new(JobCells::new(1, ranks));
    for psn in 0..contributions {
        cells.ranks_of(0).heard(0, psn, Moment::at(1));
        if psn == 0 {
            cells.again(0, 0);
        }
        cells.completed(0, 0, Made { contributions: ranks, bytes: 100 }, 500);
    }
    let status = JobStatus {
        id,
        fan_in: ranks,
        joined: 1,
        epoch: 3,
        payload: 1024,
        multicast: None,
        needed: ranks,
        lost: 0,
        complete: false,
        halted: false,
        broken: false,
        formed: false,
        server: pascaline_pipelines::membership::ServerState::None,
        uplink: None,
    };
    let (name, terms) = (format!("n{id}"), Terms::default());
    JobInput { status, name, terms, missing: RankReports::EMPTY, reading: cells.read(), cells }
}

fn samples<'a>(gauges: &'a [Gauge], name: &str) -> &'a [(Labels, f64)] {
    &gauges.iter().find(|gauge| gauge.name == name).expect(name).samples
}

#[test]
fn a_thousand_jobs_make_no_more_series_than_there_are_places() {
    let metrics = JobMetrics::new();
    let jobs: Vec<JobInput> = (0..1024).map(|id| input(id, 8, u32::from(id % 100))).collect();
    let gauges = metrics.gauges(&jobs);
    let contributions = samples(&gauges, "job_contributions");
    assert_eq!(contributions.len(), PLACES + 1);
    let all: f64 = jobs.iter().map(|job| float(job.reading.contributions())).sum();
    assert_eq!(contributions.iter().map(|(_, value)| value).sum::<f64>(), all, "nothing is lost");
    assert_eq!(contributions.last().unwrap().0[0].1, "other");
    assert_eq!(samples(&gauges, "job_ranks").len(), PLACES);
    assert!(samples(&gauges, "job_rank_last").len() <= RANK_SERIES);
    assert_eq!(samples(&gauges, "jobs")[0].1, 1024.0);
    assert!(gauges.iter().map(|gauge| gauge.samples.len()).sum::<usize>() < 4_500);
}

#[test]
fn a_job_is_told_with_its_ranks() {
    let metrics = JobMetrics::new();
    let gauges = metrics.gauges(&[input(7, 2, 4), input(8, 2, 0)]);
    let job = vec![("job_id", "7".to_owned()), ("name", "n7".to_owned())];
    assert_eq!(samples(&gauges, "job_contribution_bytes")[0], (job.clone(), 800.0));
    assert_eq!(samples(&gauges, "job_results")[0], (job.clone(), 4.0));
    assert_eq!(samples(&gauges, "job_waited_seconds")[0], (job.clone(), 2e-6));
    assert_eq!(samples(&gauges, "job_behind_packets")[0], (job, 4.0), "rank 1 has sent nothing");
    assert_eq!(samples(&gauges, "job_rank_last").len(), 4);
    assert_eq!(samples(&gauges, "job_rank_retransmissions")[0].1, 1.0);
    assert_eq!(samples(&gauges, "job_members").len(), 2, "also of a job that has sent nothing");
    assert_eq!(samples(&gauges, "job_contributions").len(), 2, "job 7 and the others");
    assert!(gauges.iter().all(|gauge| gauge.name != "job_model_age_seconds"), "neither is asynchronous");
    let asynchronous = input(9, 2, 0);
    asynchronous.cells.answered(0, 1_000_000_000);
    let asynchronous = JobInput { reading: asynchronous.cells.read(), ..asynchronous };
    assert!(samples(&metrics.gauges(&[asynchronous]), "job_model_age_seconds")[0].1 > 1e9);
}

#[test]
fn an_exemplar_is_the_mean_wait_since_the_last_look_with_the_rank_that_was_waited_for() {
    let metrics = JobMetrics::new();
    metrics.gauges(&[input(7, 2, 4), input(8, 2, 0)]);
    let first = metrics.exemplars();
    assert_eq!(first.len(), 1, "job 8 has made nothing");
    let job = input(7, 2, 4);
    for _ in 0..3 {
        job.cells.completed(0, 1, Made { contributions: 2, bytes: 100 }, 2_500);
    }
    let reading = job.cells.read();
    metrics.gauges(&[JobInput { reading, ..job }, input(8, 2, 0)]);
    let second = metrics.exemplars();
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].labels, [("job_id", "7".to_owned()), ("rank", "1".to_owned())]);
    assert!((second[0].value - 2.5e-6).abs() < 1e-12, "{}", second[0].value);
    assert_eq!(first[0].labels[1].1, "0");
    metrics.gauges(&[input(7, 2, 4)]);
    assert!(metrics.exemplars().is_empty(), "a job whose counts fell began anew");
}
