use super::*;

const ADDRESSES: [Address; 2] = [Address::from_v4([10, 0, 0, 1]), Address::from_v6([1; 16])];

/// The announcements sent at a time with room for this many frames.
fn told(announcements: &mut Announcements, now: Duration, room: usize) -> Vec<(usize, Address)> {
    let mut told = Vec::new();
    announcements.turn(now, &ADDRESSES, |port, address| {
        let fits = told.len() < room;
        if fits {
            told.push((port, address));
        }
        fits
    });
    told
}

#[test]
fn each_address_is_told_three_times_at_each_port() {
    let mut announcements = Announcements::default();
    let at = |ms: u64| Duration::from_millis(5000 + ms);
    assert_eq!(announcements.poll_timeout(), None);
    assert!(told(&mut announcements, at(0), 99).is_empty());
    announcements.begin(at(0), Ports::of([0, 2]));
    let [v4, v6] = ADDRESSES;
    let all = [(0, v4), (0, v6), (2, v4), (2, v6)];
    for second in 0..3 {
        assert_eq!(announcements.poll_timeout(), Some(at(1000 * second)));
        assert_eq!(told(&mut announcements, at(1000 * second), 99), all);
        assert!(told(&mut announcements, at(1000 * second + 999), 99).is_empty());
    }
    assert_eq!(announcements.poll_timeout(), None);
    assert!(told(&mut announcements, at(9000), 99).is_empty());
}

#[test]
fn a_link_that_comes_up_meanwhile_is_told_at_once_and_nothing_is_lost() {
    let mut announcements = Announcements::default();
    let at = Duration::from_millis;
    announcements.begin(at(0), Ports::of([0]));
    assert_eq!(told(&mut announcements, at(0), 1).len(), 1);
    assert!(announcements.poll_timeout().is_some());
    assert_eq!(told(&mut announcements, at(1), 99), [(0, ADDRESSES[1])], "what had no room");
    announcements.begin(at(500), Ports::of([1]));
    announcements.begin(at(500), Ports::NONE);
    assert_eq!(told(&mut announcements, at(500), 99).len(), 4);
    assert_eq!(told(&mut announcements, at(1500), 99).len(), 4);
    assert_eq!(told(&mut announcements, at(2500), 99).len(), 4);
    assert_eq!(announcements.poll_timeout(), None);
}
