use super::*;

impl Bytes for Vec<u8> {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// An IPv4 packet of 976 bytes on the wire's payload, so that it takes 8 µs of a gigabit.
fn packet(class: u8) -> Vec<u8> {
    let mut frame = vec![0; 976];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[15] = class;
    let sum = checksum::finish(checksum::sum(&frame[14..34]));
    frame[SUM].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn frames_wait_for_the_line_are_marked_and_dropped() {
    let (start, us) = (Instant::now(), Duration::from_micros);
    let mut queue = Queue::new(Line { rate: 1_000_000_000, limit: 6, threshold: Some(3), full: 0 }, 1);
    let mut frames: Vec<_> = [ecn::CAPABLE, 0, ecn::CAPABLE, 0, ecn::CAPABLE, 1, 0].map(packet).into();
    queue.pass(start, &mut frames);
    assert!(frames.is_empty(), "none has left yet");
    assert_eq!((queue.marked, queue.dropped), (2, 1), "ECN-capable ones; the seventh has no room");
    assert_eq!(queue.next_due(), Some(start + us(8)));
    queue.pass(start + us(24), &mut frames);
    assert_eq!(frames.len(), 3);
    queue.pass(start + us(48), &mut frames);
    // Every frame that enters leaves: those before are taken for new ones.
    frames.clear();
    queue.flush(&mut frames);
    let classes: Vec<u8> = frames.iter().map(|frame| frame[15]).collect();
    assert_eq!(classes, [ecn::CAPABLE, 0, ecn::CAPABLE], "the queue was short again");
    assert_eq!(queue.next_due(), None);
}

/// One packet leaves for each that comes, so that the same number waits all the time.
#[test]
fn chances_of_a_mark_grow_with_the_queue() {
    let us = Duration::from_micros;
    let marked = |waiting: u32| {
        let line = Line { rate: 1_000_000_000, limit: 100, threshold: Some(10), full: 29 };
        let (mut queue, start) = (Queue::new(line, 7), Instant::now());
        queue.pass(start, &mut vec![packet(0); waiting as usize]);
        for number in 1..=2000 {
            queue.pass(start + us(8) * number, &mut vec![packet(ecn::CAPABLE)]);
        }
        queue.marked
    };
    assert_eq!(marked(10), 0, "nine wait when one has left");
    // 5 of 20 chances, and 15.
    assert!((400..600).contains(&marked(15)), "{}", marked(15));
    assert!((1400..1600).contains(&marked(25)), "{}", marked(25));
    assert_eq!(marked(30), 2000);
}

#[test]
fn a_marked_packet_has_the_right_checksum() {
    for class in [ecn::CAPABLE, 0b01, 0xb8 | ecn::CAPABLE] {
        let mut frame = packet(class);
        assert!(mark(&mut frame));
        assert_eq!(frame[15] & ecn::MASK, ecn::MARKED);
        assert!(checksum::holds(&frame[14..34]), "class {class:x}");
    }
    let mut v6 = vec![0; 54];
    v6[12..14].copy_from_slice(&[0x86, 0xdd]);
    (v6[14], v6[15]) = (0x60, 0x20);
    assert!(mark(&mut v6) && v6[14..16] == [0x60, 0x30]);
    for other in [packet(0), vec![0; 60], vec![8; 13]] {
        let mut frame = other.clone();
        assert!(!mark(&mut frame) && frame == other);
    }
}

#[test]
fn without_a_rate_everything_passes_at_once() {
    let mut queue = Queue::new(Line { rate: 0, limit: 1, threshold: Some(0), full: 0 }, 1);
    let mut frames = vec![packet(ecn::CAPABLE); 5];
    queue.pass(Instant::now(), &mut frames);
    assert_eq!((frames.len(), queue.marked), (5, 0));
}
