use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn refused() -> Unreachable {
    Unreachable { obstacle: Obstacle::NothingListens, by: None }
}

#[test]
fn a_refusal_is_believed_once_it_lasts() {
    let mut way = Way::default();
    way.reported(SECOND, refused());
    way.reported(2 * SECOND, refused());
    assert_eq!(way.closes(), Some(SECOND + CLOSED), "counted from the first");
    assert!(!way.is_closed(2 * SECOND));
    assert!(way.is_closed(SECOND + CLOSED));
}

#[test]
fn an_answer_makes_refusals_forgotten() {
    let mut way = Way::default();
    way.reported(SECOND, refused());
    way.note_received(2 * SECOND);
    assert!(!way.is_closed(9 * SECOND));
    assert_eq!(way.report(), None);
    assert_eq!(way.silence(9 * SECOND, SECOND), 7 * SECOND);
    assert_eq!(way.silence(9 * SECOND, 5 * SECOND), 4 * SECOND, "of this operation only");
}

#[test]
fn what_was_under_way_does_not_make_a_refusal_forgotten() {
    let mut way = Way::default();
    way.reported(SECOND, refused());
    let last = SECOND + UNDER_WAY;
    way.note_received(last);
    assert_eq!(way.report(), Some(refused()));
    assert_eq!(way.closes(), Some(last + CLOSED), "counted from what was heard last");
    way.note_received(last + Duration::from_nanos(1));
    assert_eq!((way.report(), way.closes()), (None, None));
}

/// Holds R14.5 of protocol.md.
#[test]
fn refusals_beside_answers_are_not_believed() {
    let mut way = Way::default();
    for tenth in 0..100 {
        let now = SECOND / 10 * tenth;
        way.reported(now, refused());
        way.note_received(now);
        assert!(!way.is_closed(now + SECOND / 10), "a stranger can say so as often as he likes");
    }
}

#[test]
fn what_this_host_refuses_does_not_get_there_whatever_is_heard() {
    let mut way = Way::default();
    for tenth in 10..30 {
        let now = SECOND / 10 * tenth;
        way.left_here(now, true);
        way.note_received(now + SECOND / 100);
        assert_eq!(way.is_closed(now), now >= SECOND + CLOSED, "{now:?}");
    }
    assert_eq!(way.report(), Some(HERE));
    way.left_here(3 * SECOND, false);
    assert!(!way.is_closed(3 * SECOND), "one packet got out");
    way.left_here(4 * SECOND, true);
    assert_eq!(way.closes(), Some(4 * SECOND + CLOSED), "counted anew");
}

#[test]
fn a_vague_report_takes_no_clear_ones_place() {
    let vague = Unreachable { obstacle: Obstacle::NoHost, by: None };
    let mut way = Way::default();
    way.reported(SECOND, refused());
    way.reported(SECOND, vague);
    assert_eq!((way.report(), way.closes()), (Some(refused()), Some(SECOND + CLOSED)));
    way.note_received(9 * SECOND);
    way.reported(10 * SECOND, vague);
    assert_eq!((way.report(), way.closes()), (Some(vague), None));
}

#[test]
fn a_host_that_is_not_there_may_be_starting() {
    let mut way = Way::default();
    way.reported(SECOND, Unreachable { obstacle: Obstacle::NoHost, by: None });
    assert_eq!(way.closes(), None);
    assert!(!way.is_closed(100 * SECOND));
}

#[test]
fn payloads_fit_into_the_mtu() {
    assert_eq!([1500, 9000, 1000].map(|mtu| largest_payload(mtu, false)), [1448, 8944, 944]);
    assert_eq!([1500, 9000].map(|mtu| largest_payload(mtu, true)), [1424, 8928]);
    assert_eq!(largest_payload(40, false), 0);
}

#[test]
fn what_to_look_at_names_the_port() {
    let appliance = Some(SocketAddr::from(([10, 0, 0, 1], 16500)));
    for report in [None, Some(refused()), Some(Unreachable { obstacle: Obstacle::Filtered, by: None })] {
        assert!(Check::new(appliance, report).to_string().contains("16500"), "{report:?}");
    }
}
