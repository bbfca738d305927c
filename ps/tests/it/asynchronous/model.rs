//! How long a model and the memory of rewards last.

use super::*;

#[test]
fn the_highest_reward_ends_with_the_generation_and_with_time() {
    let memory = Duration::from_secs(10);
    let mut server = with(Settings { rule: Rule::Olaf { rate: 1.0 }, memory, ..Settings::default() });
    let push = |server: &mut AsyncServer, at: u64, epoch, reward| {
        let mut packet = update(1, reward, &[1.0, 1.0]);
        packet.header.epoch = epoch;
        server.handle_datagram(at * SECOND, &packet.datagram())
    };
    assert_eq!(push(&mut server, 1, 9, 3.4e38), AsyncOutcome::Applied);
    assert_eq!(push(&mut server, 10, 9, 5.0), AsyncOutcome::LowReward);
    assert_eq!(push(&mut server, 11, 9, 5.0), AsyncOutcome::Applied, "nothing has reached it for so long");
    assert_eq!(push(&mut server, 12, 9, 4.0), AsyncOutcome::LowReward);
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    assert_eq!(push(&mut server, 12, 9, 4.0), AsyncOutcome::LowReward, "the same generation");
    server.set_job(JOB, AsyncJob { fan_in: 3, epoch: 10, payload: 8 });
    assert_eq!(push(&mut server, 12, 10, 4.0), AsyncOutcome::Applied);
    assert_eq!(server.weights(JOB), Some(&[3.0, 3.0][..]), "the model has gone on");
}

#[test]
fn a_server_without_a_model_asks_for_one_and_makes_none_up() {
    let mut server = empty(Settings { rule: Rule::Olaf { rate: 1.0 }, ..Settings::default() });
    let sent = update(1, 1.0, &[1.0, 1.0]);
    assert_eq!(server.handle_datagram(SECOND, &sent.datagram()), AsyncOutcome::NoModel);
    assert_eq!(server.weights(JOB), None);
    let answers = replies(&mut server);
    assert_eq!(
        (answers.len(), status_of(&answers[0]), &answers[0].1[..]),
        (1, Some(Status::NoModel), &[][..])
    );
    // The worker's latest weights.
    server.handle_datagram(SECOND, &weights(&[100.0, 7.0]).datagram());
    assert_eq!(server.handle_datagram(SECOND, &sent.datagram()), AsyncOutcome::Applied);
    assert_eq!(server.weights(JOB), Some(&[101.0, 8.0][..]));
}

#[test]
fn a_model_that_was_kept_goes_on() {
    let rule = Rule::Olaf { rate: 1.0 };
    let mut before = server(rule);
    assert_eq!(empty(Settings::default()).keep(JOB), None);
    before.handle_datagram(SECOND, &update(1, 1.0, &[4.0, 8.0]).datagram());
    let bytes = before.keep(JOB).unwrap().to_bytes();
    let kept = Kept::from_bytes(&bytes).unwrap();
    assert_eq!(kept, Kept { job: JOB, version: 1, weights: vec![4.0, 8.0], average: vec![4.0, 8.0] });
    let mut after = AsyncServer::new(Settings { rule, ..Settings::default() });
    after.restore(kept.clone());
    after.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 8 });
    for server in [&mut before, &mut after] {
        server.handle_datagram(SECOND, &update(1, 2.0, &[2.0, 0.0]).datagram());
        assert_eq!(
            server.weights(JOB),
            Some(&[7.0, 12.0][..]),
            "with the average of gradients that there was"
        );
    }
    let mut other = AsyncServer::new(Settings::default());
    other.restore(kept);
    other.set_job(JOB, AsyncJob { fan_in: 3, epoch: 9, payload: 16 });
    assert_eq!(other.weights(JOB), None, "another length");
    other.set_job(JOB, AsyncJob { fan_in: 3, epoch: 10, payload: 8 });
    assert_eq!(other.weights(JOB), Some(&[4.0, 8.0][..]), "no other one was needed meanwhile");
}

#[test]
fn a_model_from_before_gives_way_to_one_of_another_length_until_a_worker_has_shown_its_own() {
    let kept = Kept { job: JOB, version: 3, weights: vec![1.0], average: vec![] };
    let served = |epoch| AsyncJob { fan_in: 3, epoch, payload: 8 };
    let offer = |server: &mut AsyncServer, epoch, values: &[f32]| {
        let mut packet = weights(values);
        packet.header.epoch = epoch;
        let outcome = server.handle_datagram(SECOND, &packet.datagram());
        (outcome, replies(server).iter().map(|reply| (status_of(reply), reply.1.clone())).next())
    };
    let mut server = AsyncServer::new(Settings::default());
    server.restore(kept);
    server.set_job(JOB, served(9));
    assert_eq!(offer(&mut server, 9, &[f32::NAN, 2.0]).0, AsyncOutcome::NotFinite);
    assert_eq!(
        offer(&mut server, 9, &[1.0, 2.0, 3.0]).0,
        AsyncOutcome::WrongModel,
        "nor is it what they say"
    );
    assert_eq!(server.weights(JOB), Some(&[1.0][..]));
    let whole = Some((None, vec![5.0, 6.0]));
    assert_eq!(offer(&mut server, 9, &[5.0, 6.0]), (AsyncOutcome::Initialised, whole.clone()));
    assert_eq!(offer(&mut server, 9, &[7.0, 8.0]), (AsyncOutcome::NotFirst, whole.clone()));
    let refused = (AsyncOutcome::WrongModel, Some((Some(Status::PayloadMismatch), vec![])));
    assert_eq!(offer(&mut server, 9, &[7.0]), refused);
    // As after the start of all workers, of which a new program has one float less.
    server.set_job(JOB, served(10));
    assert_eq!(offer(&mut server, 10, &[0.0, 0.0]), (AsyncOutcome::NotFirst, whole));
    assert_eq!(offer(&mut server, 10, &[7.0]), refused);
    server.set_job(JOB, served(11));
    assert_eq!(offer(&mut server, 11, &[7.0]), (AsyncOutcome::Initialised, Some((None, vec![7.0]))));
}

#[test]
fn a_damaged_file_is_none() {
    let kept = Kept { job: 1, version: 1 << 40, weights: vec![1.0, 2.0, 3.0], average: vec![] };
    let bytes = kept.to_bytes();
    assert_eq!(Kept::from_bytes(&bytes), Ok(kept.clone()));
    let with = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        Kept::from_bytes(&bytes)
    };
    assert_eq!(with(0, b'p'), Err(NotKept::Foreign));
    assert_eq!(with(8, 2), Err(NotKept::Format(2)));
    assert!(matches!(with(12, 9), Err(NotKept::Length { got: 44, .. })));
    for at in (10..12).chain(16..24).chain(28..44) {
        assert!(matches!(with(at, 0x55), Err(NotKept::Damaged { .. })), "byte {at}");
    }
    for short in 0..bytes.len() {
        assert!(Kept::from_bytes(&bytes[..short]).is_err());
    }
    let infinite = Kept { weights: vec![f32::INFINITY], ..kept };
    assert_eq!(Kept::from_bytes(&infinite.to_bytes()), Err(NotKept::NotFinite));
}
