//! Who gives way to whom.

use super::*;

fn enter(guests: &Arc<Guests>) -> Option<(Arc<Guest>, bool)> {
    guests.enter().map(|(guest, for_it)| (Arc::new(guest), for_it))
}

fn left(guest: &Guest) -> bool {
    !guest.of.lock().guests.contains_key(&guest.number)
}

#[test]
fn who_waits_longest_gives_way_and_who_is_answered_does_not() {
    let guests = Guests::new(3, Duration::MAX);
    let [(first, _), (second, _), (third, _)] = [(); 3].map(|()| enter(&guests).unwrap());
    let asking = first.asks();
    let (fourth, for_it) = enter(&guests).unwrap();
    assert!(for_it && left(&second) && !left(&first) && !left(&third), "the longest without a request");
    drop(asking);
    enter(&guests).unwrap();
    assert!(left(&third) && !left(&first) && !left(&fourth), "an answer makes it begin anew");
}

#[test]
fn where_all_are_answered_nobody_comes_in_but_for_the_slow() {
    let (guests, impatient) = (Guests::new(1, Duration::MAX), Guests::new(1, Duration::ZERO));
    let (guest, for_it) = enter(&guests).unwrap();
    assert!(!for_it);
    let _asking = guest.asks();
    assert!(enter(&guests).is_none());
    let (slow, _) = enter(&impatient).unwrap();
    let _asking = slow.asks();
    assert!(enter(&impatient).is_some() && left(&slow));
    let stream = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    let (viewer, _) = enter(&guests).unwrap_or_else(|| enter(&Guests::new(1, Duration::ZERO)).unwrap());
    let _answer = viewer.asks().with(stream.body(Body::empty()).unwrap());
    assert!(enter(&viewer.of).is_none(), "streams stay");
}

#[test]
fn a_place_is_free_again_when_its_guest_has_gone() {
    let guests = Guests::new(1, Duration::MAX);
    drop(enter(&guests).unwrap());
    assert!(!enter(&guests).unwrap().1);
}
