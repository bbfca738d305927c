use super::*;

const SESSION: u64 = 77;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A job's latest Serve, for an answer to it.
fn latest(registrar: &Registrar, job: u16) -> u32 {
    registrar.jobs.get(&job).map_or(0, |registration| registration.number)
}

/// What the registrar makes of an answer to a job's latest Serve, also if it has had one.
fn told(registrar: &mut Registrar, now: u64, job: u16, change: impl FnOnce(&mut Control)) -> Answer {
    let (header, mut control) = ack(job, |_, _| {});
    control.number = latest(registrar, job);
    change(&mut control);
    if let Some(registration) = registrar.jobs.get_mut(&job) {
        registration.awaited = true;
    }
    registrar.answer(ms(now), &header, &control)
}

/// The jobs of the Serves that are due, with what does not change of them looked at.
fn due(registrar: &mut Registrar, now: Duration) -> Vec<u16> {
    let serve = |bytes: [u8; LEN]| {
        let (header, body) = Header::parse(&bytes).unwrap();
        let control = Control::parse(body).unwrap();
        assert_eq!(control, Control { number: control.number, ..Control::request(Action::Serve, SESSION) });
        assert_eq!((header.kind, header.rank, header.epoch), (Kind::Control, u16::MAX, 0));
        header.job
    };
    core::iter::from_fn(|| registrar.poll(now).map(serve)).collect()
}

fn ack(job: u16, change: impl FnOnce(&mut Header, &mut Control)) -> (Header, Control) {
    let mut control = Control { payload: 1024, window: 64, ..Control::request(Action::Ack, SESSION) };
    control.answers = Some(Action::Serve);
    let about = Header::about(Kind::Control, Element::F32_SUM, job, 9);
    let mut header = Header { rank: u16::MAX, fan_in: 4, ..about };
    control.joined = 4;
    change(&mut header, &mut control);
    (header, control)
}

fn registrar() -> Registrar {
    Registrar::new(SESSION, [(1, Order::Arrival), (2, Order::Rank)], Some(1000..=1999), 4)
}

/// The appliance answers the latest Serves of these jobs.
fn answer(registrar: &mut Registrar, now: u64, jobs: &[u16]) {
    for &job in jobs {
        assert!(matches!(told(registrar, now, job, |_| {}), Answer::Serve(_)));
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
    let unknown = |control: &mut Control| control.status = Status::UnknownJob;
    assert_eq!(told(&mut registrar, 0, 1500, unknown), Answer::Nothing(1500));
    assert_eq!(told(&mut registrar, 0, 1500, unknown), Answer::Stray, "given up");
    registrar.unknown(ms(6), 1999);
    assert_eq!(due(&mut registrar, ms(6)), [1999], "in its place");
    answer(&mut registrar, 7, &[1000, 1999]);
    assert_eq!(told(&mut registrar, 0, 1, unknown), Answer::Nothing(1));
    assert_eq!(due(&mut registrar, ms(200)), [1, 2], "configured ones are asked for again");
}

#[test]
fn an_ack_says_what_to_serve() {
    let mut registrar = registrar();
    let expected = ServedJob { job: 2, fan_in: 4, epoch: 9, needed: 4, order: Order::Rank, payload: 1024 };
    let mut told = |change: fn(&mut Control)| told(&mut registrar, 0, 2, change);
    assert_eq!(told(|_| {}), Answer::Serve(expected));
    assert_eq!(told(|control| control.expected = 3), Answer::Serve(ServedJob { needed: 3, ..expected }));
    assert_eq!(told(|control| control.payload = 0), Answer::NotYet(2), "nobody has joined");
    let busy = told(|control| control.status = Status::TooMany);
    assert_eq!(busy, Answer::Later, "what is served goes on");
    assert_eq!(told(|control| control.status = Status::SourceRefused), Answer::Nothing(2));
    assert_eq!(told(|control| control.status = Status::Unsupported), Answer::Nothing(2));
    assert_eq!(told(|control| control.status = Status::Halted), Answer::Nothing(2));
}

/// Holds R9.17 of protocol.md.
#[test]
fn an_answer_counts_if_it_is_to_the_latest_serve_and_the_first_to_that() {
    let mut registrar = registrar();
    let hear = |registrar: &mut Registrar, number: u32, epoch: u16| {
        let (header, control) = ack(2, |header, control| (control.number, header.epoch) = (number, epoch));
        match registrar.answer(ms(25), &header, &control) {
            Answer::Serve(served) => Some(served.epoch),
            answer => {
                assert_eq!(answer, Answer::Stray);
                None
            }
        }
    };
    assert_eq!(due(&mut registrar, ms(0)), [1, 2]);
    let first = latest(&registrar, 2);
    assert_eq!(due(&mut registrar, ms(20)), [1, 2]);
    let second = latest(&registrar, 2);
    assert_eq!(hear(&mut registrar, first, 9), None, "the generation has ended since");
    assert_eq!(hear(&mut registrar, second + 1, 9), None, "it has not been asked");
    assert_eq!(hear(&mut registrar, second, 10), Some(10));
    assert_eq!(hear(&mut registrar, second, 9), None, "the network had a second one");
    // What was answered long ago to one that was stopped.
    assert_eq!(due(&mut registrar, ms(220)), [1, 2]);
    assert_eq!(registrar.lapsed(ms(900)).collect::<Vec<_>>(), [2]);
    let third = latest(&registrar, 2);
    assert_eq!(hear(&mut registrar, third, 10), None);
}

#[test]
fn an_answer_that_is_slower_than_haste_is_waited_for() {
    let mut registrar = registrar();
    let mut on_its_way = Vec::new();
    let mut answers = 0;
    for now in 0..1000 {
        registrar.unknown(ms(now), 2);
        if due(&mut registrar, ms(now)).contains(&2) {
            on_its_way.push((now + 50, latest(&registrar, 2)));
        }
        for &(_, number) in on_its_way.iter().filter(|(at, _)| *at == now) {
            let (header, control) = ack(2, |_, control| control.number = number);
            answers += u32::from(registrar.answer(ms(now), &header, &control) != Answer::Stray);
        }
    }
    assert!(answers >= 5, "{answers}");
}

#[test]
fn a_server_proves_that_it_receives_what_is_sent_to_its_address() {
    let mut registrar = registrar();
    let cookie = |registrar: &mut Registrar, now| {
        let sent: Vec<_> = core::iter::from_fn(|| registrar.poll(ms(now))).collect();
        let cookie = |bytes: &[u8; LEN]| Control::parse(&bytes[header::LEN..]).unwrap().cookie;
        sent.iter().map(cookie).collect::<Vec<_>>()
    };
    assert_eq!(cookie(&mut registrar, 0), [0, 0]);
    let pending = |control: &mut Control| (control.status, control.cookie) = (Status::Pending, 42);
    assert_eq!(
        told(&mut registrar, 1, 1, |_| {}),
        Answer::Serve(ServedJob {
            job: 1,
            fan_in: 4,
            epoch: 9,
            needed: 4,
            order: Order::Arrival,
            payload: 1024
        })
    );
    assert_eq!(told(&mut registrar, 1, 2, pending), Answer::Unproven(2));
    assert_eq!(cookie(&mut registrar, 1), [42], "at once");
    assert_eq!(told(&mut registrar, 2, 2, pending), Answer::Unproven(2));
    assert_eq!(cookie(&mut registrar, 2), [0_u64; 0], "but not over and over");
    assert_eq!(cookie(&mut registrar, 41), [42]);
    assert!(matches!(told(&mut registrar, 42, 2, |_| {}), Answer::Serve(_)));
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
    answer(&mut registrar, 10_000, &[2]);
    assert_eq!(lapsed(&mut registrar, 10_499), [0_u16; 0]);
    assert_eq!(lapsed(&mut registrar, 10_500), [2]);
    assert_eq!(lapsed(&mut registrar, 11_000), [0_u16; 0], "once");
}
