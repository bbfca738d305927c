use super::*;

const SESSION: u64 = 77;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The jobs of the Serves that are due, with what does not change of them looked at.
fn due(registrar: &mut Registrar, now: Duration) -> Vec<u16> {
    let serve = |bytes: [u8; LEN]| {
        let (header, body) = Header::parse(&bytes).unwrap();
        let control = Control::parse(body).unwrap();
        assert_eq!(control, Control::request(Action::Serve, SESSION));
        assert_eq!((header.kind, header.rank, header.epoch), (Kind::Control, u16::MAX, 0));
        header.job
    };
    core::iter::from_fn(|| registrar.poll(now).map(serve)).collect()
}

fn ack(job: u16, change: impl FnOnce(&mut Header, &mut Control)) -> (Header, Control) {
    let mut control = Control { payload: 1024, window: 64, ..Control::request(Action::Ack, SESSION) };
    control.answers = Some(Action::Serve);
    let mut header = Header {
        kind: Kind::Control,
        flags: Flags::NONE,
        element: Element::F32_SUM,
        job,
        rank: u16::MAX,
        psn: 0,
        fan_in: 4,
        count: 4,
        priority: 0,
        wnd_cap: 0,
        tree: 0,
        epoch: 9,
    };
    change(&mut header, &mut control);
    (header, control)
}

fn registrar() -> Registrar {
    Registrar::new(SESSION, [(1, Order::Arrival), (2, Order::Rank)], Some(1000..=1999), 4)
}

/// The appliance answers the latest Serves of these jobs.
fn answer(registrar: &mut Registrar, now: u64, jobs: &[u16]) {
    for &job in jobs {
        let (header, control) = ack(job, |_, _| {});
        assert!(matches!(registrar.answer(ms(now), &header, &control), Answer::Serve(_)));
    }
}

#[test]
fn every_job_is_announced_every_200_ms() {
    let mut registrar = registrar();
    assert_eq!(due(&mut registrar, ms(0)), [1, 2]);
    answer(&mut registrar, 5, &[1, 2]);
    assert_eq!(due(&mut registrar, ms(199)), [0_u16; 0]);
    assert_eq!(registrar.next_wake(), Some(ms(200)));
    assert_eq!(due(&mut registrar, ms(200)), [1, 2]);
}

#[test]
fn what_is_not_answered_is_announced_again_after_20_ms_and_then_less_often() {
    let mut registrar = registrar();
    for at in [0, 20, 60, 140, 300, 500, 700] {
        assert_eq!(due(&mut registrar, ms(at)), [1, 2], "{at}");
        assert!(registrar.next_wake() > Some(ms(at + 19)));
        assert_eq!(due(&mut registrar, ms(at + 19)), [0_u16; 0], "{at}");
    }
    answer(&mut registrar, 720, &[1]);
    assert_eq!(due(&mut registrar, ms(900)), [1, 2]);
    assert_eq!(due(&mut registrar, ms(920)), [1]);
}

#[test]
fn an_unknown_packet_hastens_the_next_one_to_20_ms_after_the_last() {
    let mut registrar = registrar();
    assert_eq!(due(&mut registrar, ms(0)), [1, 2]);
    answer(&mut registrar, 1, &[1, 2]);
    for now in 1..=19 {
        registrar.unknown(ms(now), 2);
        // Of a generation that may be over.
        answer(&mut registrar, now, &[2]);
        assert_eq!(due(&mut registrar, ms(now)), [0_u16; 0]);
    }
    assert_eq!(registrar.next_wake(), Some(ms(20)));
    assert_eq!(due(&mut registrar, ms(20)), [2]);
    answer(&mut registrar, 21, &[2]);
    registrar.unknown(ms(100), 2);
    assert_eq!(due(&mut registrar, ms(100)), [2], "nothing was sent for longer than that");
    answer(&mut registrar, 101, &[2]);
    registrar.unknown(ms(100), 3);
    assert_eq!(due(&mut registrar, ms(120)), [0_u16; 0], "not a job of the configuration");
}

#[test]
fn jobs_formed_by_joins_are_announced_once_they_are_seen_and_while_they_last() {
    let mut registrar = registrar();
    assert_eq!(due(&mut registrar, ms(0)), [1, 2]);
    answer(&mut registrar, 1, &[1, 2]);
    for job in [1500, 1000, 1999, 999] {
        registrar.unknown(ms(5), job);
    }
    assert_eq!(due(&mut registrar, ms(5)), [1000, 1500], "four jobs in all");
    let (header, control) = ack(1500, |_, control| control.status = Status::UnknownJob);
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Nothing(1500));
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Stray, "given up");
    registrar.unknown(ms(6), 1999);
    assert_eq!(due(&mut registrar, ms(6)), [1999], "in its place");
    answer(&mut registrar, 7, &[1000, 1999]);
    let (header, control) = ack(1, |_, control| control.status = Status::UnknownJob);
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Nothing(1));
    assert_eq!(due(&mut registrar, ms(200)), [1, 2], "configured ones are asked for again");
}

#[test]
fn an_ack_says_what_to_serve() {
    let mut registrar = registrar();
    let expected = ServedJob { job: 2, fan_in: 4, epoch: 9, needed: 4, order: Order::Rank, payload: 1024 };
    let (header, control) = ack(2, |_, _| {});
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Serve(expected));
    let (header, control) = ack(2, |_, control| control.expected = 3);
    assert_eq!(
        registrar.answer(ms(0), &header, &control),
        Answer::Serve(ServedJob { needed: 3, ..expected })
    );
    let (header, control) = ack(2, |_, control| control.payload = 0);
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::NotYet(2), "nobody has joined");
    let (header, control) = ack(2, |_, control| control.status = Status::TooMany);
    assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Later, "what is served goes on");
    for status in [Status::SourceRefused, Status::Unsupported, Status::Halted] {
        let (header, control) = ack(2, |_, control| control.status = status);
        assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Nothing(2));
    }
}

#[test]
fn an_ack_for_somebody_else_is_a_stray() {
    let mut registrar = registrar();
    for (header, control) in [
        ack(2, |_, control| control.session = 78),
        ack(2, |_, control| control.answers = Some(Action::Join)),
        ack(2, |_, control| control.answers = None),
        ack(3, |_, _| {}),
    ] {
        assert_eq!(registrar.answer(ms(0), &header, &control), Answer::Stray);
    }
}

#[test]
fn a_server_without_answers_takes_itself_for_gone_before_the_appliance_does() {
    assert!(LAPSE + ms(200) < pascaline_pipelines::membership::SILENCE, "an answer may take that long");
    let lapsed = |registrar: &mut Registrar, now| registrar.lapsed(ms(now)).collect::<Vec<_>>();
    let mut registrar = registrar();
    assert_eq!(lapsed(&mut registrar, 10_000), [0_u16; 0], "it has never been answered");
    let (header, control) = ack(2, |_, _| {});
    registrar.answer(ms(10_000), &header, &control);
    assert_eq!(lapsed(&mut registrar, 10_499), [0_u16; 0]);
    assert_eq!(lapsed(&mut registrar, 10_500), [2]);
    assert_eq!(lapsed(&mut registrar, 11_000), [0_u16; 0], "once");
}
