use super::*;

fn model(job: u16, version: u64, floats: usize) -> Kept {
    Kept { job, version, weights: vec![1.0; floats], average: vec![] }
}

#[test]
fn what_waits_is_the_latest_of_each_job_in_the_order_of_their_lengths() {
    let mut waiting = Waiting::default();
    let told = |waiting: &Waiting| -> Vec<(u16, u64)> {
        waiting.models.iter().map(|kept| (kept.job, kept.version)).collect()
    };
    for (job, version, floats) in [(1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 3, 4), (1, 4, 2), (2, 2, 2)] {
        waiting.add(model(job, version, floats));
    }
    assert_eq!(told(&waiting), [(1, 2), (2, 2), (1, 3), (1, 4)], "job 1 has changed its length twice");
    let failed = waiting.models.pop_front().unwrap();
    waiting.take_back(failed);
    assert_eq!(told(&waiting), [(2, 2), (1, 2), (1, 3), (1, 4)], "others first, but before what is later");
    waiting.take_back(model(2, 1, 2));
    assert_eq!(told(&waiting), [(2, 2), (1, 2), (1, 3), (1, 4)], "there is a later one");
    waiting.take_back(model(3, 1, 2));
    assert_eq!(told(&waiting).last(), Some(&(3, 1)));
}
