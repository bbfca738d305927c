use super::*;

fn client(workers: u16, window: u16) -> Client {
    let timeout = Duration::from_millis(10);
    Client::new(Terms { workers, window, size: Size::Bytes256, timeout }).unwrap()
}

/// Sends until it waits, and answers each packet with itself: the client is alone.
fn alone(client: &mut Client) -> u64 {
    let (mut out, mut sent) = (Vec::new(), 0);
    while client.poll_transmit(Duration::ZERO, &mut out) {
        let datagram = out.clone();
        client.handle(Duration::ZERO, &datagram);
        sent += 1;
    }
    sent
}

#[test]
fn a_single_worker_gets_its_own_numbers_back() {
    let mut client = client(1, 4);
    for count in [0, 1, 64, 65, 64 * 9 + 3] {
        let values: Vec<i32> = (0..count).map(|at| at * 7 - 3).collect();
        client.start_integers(values.clone());
        assert_eq!(alone(&mut client), u64::from(count.cast_unsigned().div_ceil(64)));
        assert_eq!(client.take_integers(), Some(values));
        let values: Vec<f32> = (0..count).map(|at| at as f32 * 0.37 - 11.0).collect();
        client.start_floats(values.clone());
        alone(&mut client);
        let got = client.take_floats().unwrap();
        for (block, (got, values)) in got.chunks(64).zip(values.chunks(64)).enumerate() {
            let largest = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            for (got, value) in got.iter().zip(values) {
                assert!((got - value).abs() <= largest * 1e-7, "block {block}: {got} for {value}");
            }
        }
    }
}

#[test]
fn the_ring_goes_on_from_one_operation_to_the_next() {
    let mut client = client(1, 2);
    let mut places = Vec::new();
    for _ in 0..3 {
        client.start_integers(vec![1; 64 * 3]);
        let mut out = Vec::new();
        while client.poll_transmit(Duration::ZERO, &mut out) {
            let datagram = out.clone();
            let Place { slot, second } = Body::parse(&datagram).unwrap().place;
            places.push((slot, second));
            client.handle(Duration::ZERO, &datagram);
        }
        assert!(client.take_integers().is_some());
    }
    let ring = [(0, false), (1, false), (0, true), (1, true)];
    assert_eq!(places, ring.into_iter().cycle().take(9).collect::<Vec<_>>());
}

/// A short operation of floats has fewer packets in flight than slots.
#[test]
fn no_slot_is_used_again_before_its_result_has_come() {
    let mut client = client(1, 5);
    client.start_floats(vec![1.0; 64 * 4]);
    let (mut out, mut lost, mut after) = (Vec::new(), Vec::new(), Vec::new());
    while client.poll_transmit(Duration::ZERO, &mut out) {
        let datagram = out.clone();
        match Body::parse(&datagram).unwrap().place {
            Place { slot: 2, .. } if lost.is_empty() => lost = datagram,
            place => {
                after.push(place.slot);
                client.handle(Duration::ZERO, &datagram);
            }
        }
    }
    assert_eq!(after, [0, 1, 3, 4, 0], "packet 7 is for slot 2");
    client.handle(Duration::ZERO, &lost);
    assert_eq!(alone(&mut client), 2);
    assert_eq!(client.take_floats(), Some(vec![1.0; 64 * 4]));
}

#[test]
fn only_what_is_under_way_is_taken_and_only_once() {
    let mut client = client(2, 2);
    client.start_integers(vec![5; 64 * 2]);
    let mut out = Vec::new();
    assert!(client.poll_transmit(Duration::ZERO, &mut out));
    let first = out.clone();
    client.handle(Duration::ZERO, &first);
    client.handle(Duration::ZERO, &first);
    assert_eq!((client.counters().results, client.counters().ignored), (1, 1));
    for (at, value) in [(0, 0x13), (1, 9), (4, 9), (48 - 42, 0x80)] {
        let mut other = first.clone();
        other[at] = value;
        client.handle(Duration::ZERO, &other);
    }
    client.handle(Duration::ZERO, &first[..20]);
    assert_eq!((client.counters().results, client.counters().ignored), (1, 6));
}

#[test]
fn what_has_no_result_in_time_is_sent_again_as_it_was() {
    let mut client = client(2, 2);
    client.start_integers((0..128).collect());
    let mut out = Vec::new();
    let mut sent = Vec::new();
    while client.poll_transmit(Duration::ZERO, &mut out) {
        sent.push(out.clone());
    }
    assert_eq!(sent.len(), 2);
    assert_eq!(client.poll_timeout(), Some(Duration::from_millis(10)));
    client.handle_timeout(Duration::from_millis(9));
    assert!(!client.poll_transmit(Duration::from_millis(9), &mut out));
    client.handle_timeout(Duration::from_millis(10));
    let mut again = Vec::new();
    while client.poll_transmit(Duration::from_millis(10), &mut out) {
        again.push(out.clone());
    }
    again.sort_unstable();
    sent.sort_unstable();
    assert_eq!(again, sent);
    assert_eq!((client.counters().sent, client.counters().again), (4, 2));
}

#[test]
fn no_client_has_bad_terms() {
    let timeout = Duration::from_millis(10);
    let terms =
        |workers, window| Client::new(Terms { workers, window, size: Size::Bytes1024, timeout }).err();
    assert_eq!(terms(0, 1), Some(BadTerms::Workers(0)));
    assert_eq!(terms(33, 1), Some(BadTerms::Workers(33)));
    assert_eq!(terms(1, 0), Some(BadTerms::Window(0)));
    assert_eq!(terms(32, 16_385), Some(BadTerms::Window(16_385)));
    assert_eq!(terms(32, 16_384), None);
}
