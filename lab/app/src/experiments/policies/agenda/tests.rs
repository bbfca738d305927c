use super::*;
use pascaline_sim::random::Random;

#[test]
fn the_earliest_is_next_and_among_equals_the_first() {
    let mut random = Random::new(7);
    for sources in [1u16, 2, 3, 100] {
        let mut agenda = Agenda::new(sources);
        let mut times = vec![NEVER; usize::from(sources)];
        assert_eq!(agenda.next(), (NEVER, 0));
        for _ in 0..2000 {
            let (source, time) = (random.index(times.len()), random.below(50));
            times[source] = time;
            agenda.set(u16::try_from(source).unwrap(), time);
            let least = *times.iter().min().unwrap();
            let first = times.iter().position(|&time| time == least).unwrap();
            assert_eq!(agenda.next(), (least, u16::try_from(first).unwrap()));
        }
    }
}
