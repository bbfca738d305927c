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
    way.heard(2 * SECOND);
    assert!(!way.is_closed(9 * SECOND));
    assert_eq!(way.report(), None);
    assert_eq!(way.silence(9 * SECOND, SECOND), 7 * SECOND);
    assert_eq!(way.silence(9 * SECOND, 5 * SECOND), 4 * SECOND, "of this operation only");
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
