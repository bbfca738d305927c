//! The pool against a model that is slow and obvious: on any trace both say the same.

use std::collections::HashMap;
use std::time::Duration;

use pascaline_aggregator::{Key, PoolConfig, Rejection, Verb};
use pascaline_wire::Element;
use proptest::prelude::*;

use crate::common::trace::{NARROW, Step, WIDE, trace};
use crate::common::{Event, Known, Parcel, Rig, Sum, TICK, Who, config};

/// In ticks, as everything here.
const AGE_LIMIT: u64 = 20;
const REMIND_INTERVAL: u64 = 10;

/// What a slot would hold: the contributions themselves.
struct Entry {
    inside: Vec<Parcel>,
    result: Option<Sum>,
    first: u64,
    touched: u64,
    reminded: Option<u64>,
}

/// A pool without slots: only the number of PSNs that share a place is limited.
struct Model {
    sets: usize,
    ways: usize,
    capacity: u16,
    entries: HashMap<Key, Entry>,
    sweep_at: usize,
}

/// The sum of these contributions, with their ranks if they are not all.
fn sum(inside: &[Parcel]) -> Sum {
    let first = &inside[0].request;
    let mut values = inside[0].values.clone();
    let mut overflow = first.overflow;
    for parcel in &inside[1..] {
        overflow |= parcel.request.overflow;
        for (a, &b) in values.iter_mut().zip(&parcel.values) {
            if first.element == Element::F32_SUM.code() {
                let float = |x: i32| f32::from_bits(x.cast_unsigned());
                *a = (float(*a) + float(b)).to_bits().cast_signed();
            } else {
                overflow |= a.checked_add(b).is_none();
                *a = a.saturating_add(b);
            }
        }
    }
    let count = u16::try_from(inside.len()).unwrap();
    let &pascaline_aggregator::Request { key, element, fan_in, now, .. } = first;
    let some = count < fan_in;
    Sum { key, element, fan_in, count, overflow, first: now, inside: some.then(|| ranks(inside)), values }
}

fn ranks(inside: &[Parcel]) -> Vec<u16> {
    let mut ranks: Vec<u16> = inside.iter().map(|parcel| parcel.request.rank).collect();
    ranks.sort_unstable();
    ranks
}

impl Entry {
    /// True if all ranks are inside, or as many as the request needs if it agrees on the number of ranks.
    fn suffices(&self, parcel: &Parcel) -> bool {
        let (fan_in, count) = (self.inside[0].request.fan_in, self.inside.len());
        let enough = parcel.request.job_fan_in == fan_in && count >= usize::from(parcel.request.needed);
        enough || count >= usize::from(fan_in)
    }

    /// Sends the partial if it is enough by now.
    fn release(&mut self, parcel: &Parcel) -> Option<Event> {
        if self.result.is_some() || !self.suffices(parcel) {
            return None;
        }
        let sum = sum(&self.inside);
        self.result = Some(sum.clone());
        Some(Event::Released(sum))
    }
}

impl Model {
    fn new(sets: usize, ways: usize, capacity: u16) -> Self {
        Self { sets, ways, capacity, entries: HashMap::new(), sweep_at: 0 }
    }

    fn offer(&mut self, parcel: &Parcel) -> Vec<Event> {
        match parcel.request.verb {
            Verb::Add => self.add(parcel),
            Verb::Remind => self.remind(parcel),
            Verb::Install => self.install(parcel),
            Verb::Fetch | Verb::Release => panic!("traces have none"),
        }
    }

    fn well_formed(parcel: &Parcel) -> Option<Rejection> {
        if usize::from(parcel.request.len) > parcel.values.len() * 4 + parcel.trailing {
            return Some(Rejection::LengthChanged);
        }
        let supported = [Element::F32_SUM.code(), Element::I32_SUM.code()].contains(&parcel.request.element);
        (!supported).then_some(Rejection::ElementUnsupported)
    }

    fn agrees(inside: &Parcel, parcel: &Parcel) -> Option<Rejection> {
        let (a, b) = (&inside.request, &parcel.request);
        if a.fan_in != b.fan_in {
            Some(Rejection::FanInChanged)
        } else if a.element != b.element {
            Some(Rejection::ElementChanged)
        } else {
            (a.len != b.len).then_some(Rejection::LengthChanged)
        }
    }

    fn add(&mut self, parcel: &Parcel) -> Vec<Event> {
        let r = parcel.request;
        let who = Who { key: r.key, rank: r.rank };
        let rejected = |why| vec![Event::Rejected(who, why)];
        if r.rank >= r.job_fan_in || r.rank >= self.capacity {
            return rejected(Rejection::RankOutOfRange);
        }
        if r.count != 1 {
            return rejected(Rejection::BadCount);
        }
        if let Some(why) = Self::well_formed(parcel) {
            return rejected(why);
        }
        if let Some(entry) = self.entries.get_mut(&r.key) {
            if let Some(sum) = &entry.result {
                entry.touched = r.now;
                return vec![Event::Replayed(who, sum.clone())];
            }
            if let Some(why) = Self::agrees(&entry.inside[0], parcel) {
                return rejected(why);
            }
            entry.touched = r.now;
            if entry.inside.iter().any(|other| other.request.rank == r.rank) {
                return entry.release(parcel).into_iter().chain(rejected(Rejection::Duplicate)).collect();
            }
            entry.inside.push(parcel.clone());
            if !entry.suffices(parcel) {
                return vec![Event::Added(who)];
            }
            let sum = sum(&entry.inside);
            entry.result = Some(sum.clone());
            return vec![Event::Completed { who, alone: false, sum }];
        }
        if r.fan_in != r.job_fan_in {
            return rejected(Rejection::FanInMismatch);
        }
        let Some(mut events) = self.make_room(r.key, r.now) else { return rejected(Rejection::Conflict) };
        let whole = (r.needed == 1).then(|| sum(std::slice::from_ref(parcel)));
        events.push(match whole.clone() {
            Some(sum) => Event::Completed { who, alone: true, sum },
            None => Event::Opened(who),
        });
        self.put(parcel, whole);
        events
    }

    fn put(&mut self, parcel: &Parcel, result: Option<Sum>) {
        let now = parcel.request.now;
        let inside = vec![parcel.clone()];
        self.entries
            .insert(parcel.request.key, Entry { inside, result, first: now, touched: now, reminded: None });
    }

    fn remind(&mut self, parcel: &Parcel) -> Vec<Event> {
        let r = parcel.request;
        let mut events = Vec::new();
        let known = match self.entries.get_mut(&r.key) {
            None => Known::Unknown,
            Some(entry) => {
                entry.touched = r.now;
                events.extend(entry.release(parcel));
                match (&entry.result, entry.reminded) {
                    (Some(sum), _) => Known::Cached(sum.clone()),
                    (None, Some(last)) if r.now - last < REMIND_INTERVAL * TICK => Known::Recently,
                    _ => {
                        entry.reminded = Some(r.now);
                        Known::Partial(ranks(&entry.inside))
                    }
                }
            }
        };
        events.push(Event::Reminded(Who { key: r.key, rank: r.rank }, known));
        events
    }

    fn install(&mut self, parcel: &Parcel) -> Vec<Event> {
        let r = parcel.request;
        let who = Who { key: r.key, rank: r.rank };
        let rejected = |why| vec![Event::Rejected(who, why)];
        if r.rank >= r.job_fan_in {
            return rejected(Rejection::RankOutOfRange);
        }
        if r.count == 0 || r.count != r.fan_in {
            return rejected(Rejection::BadCount);
        }
        if r.fan_in != r.job_fan_in {
            return rejected(Rejection::FanInMismatch);
        }
        if let Some(why) = Self::well_formed(parcel) {
            return rejected(why);
        }
        let mut events = Vec::new();
        match self.entries.get(&r.key) {
            Some(entry) if entry.result.is_some() => return rejected(Rejection::Duplicate),
            Some(entry) => {
                if let Some(why) = Self::agrees(&entry.inside[0], parcel) {
                    return rejected(why);
                }
                events.push(Event::EvictedPartial(r.key));
            }
            None => match self.make_room(r.key, r.now) {
                Some(displaced) => events = displaced,
                // Given out without being kept.
                None => {
                    return vec![Event::PassedOn { who, sum: Self::whole(parcel) }];
                }
            },
        }
        let sum = Self::whole(parcel);
        self.put(parcel, Some(sum.clone()));
        events.push(Event::Installed { who, sum });
        events
    }

    /// What an installed result says.
    fn whole(parcel: &Parcel) -> Sum {
        let r = parcel.request;
        Sum {
            key: r.key,
            element: r.element,
            fan_in: r.fan_in,
            count: r.count,
            overflow: r.overflow,
            first: r.now,
            inside: None,
            values: parcel.values.clone(),
        }
    }

    /// Removes an entry if there are too many at the key's place. `None` if none may go.
    fn make_room(&mut self, key: Key, now: u64) -> Option<Vec<Event>> {
        let place = key.place(self.sets);
        let here = || self.entries.iter().filter(|(other, _)| other.place(self.sets) == place);
        if here().count() < self.ways {
            return Some(Vec::new());
        }
        let limit = AGE_LIMIT * TICK;
        let abandoned = here()
            .filter(|(_, e)| e.result.is_none() && now - e.touched > limit)
            .min_by_key(|(_, e)| e.touched);
        let result = here().filter(|(_, e)| e.result.is_some()).min_by_key(|(_, e)| e.touched);
        let old =
            here().filter(|(_, e)| e.result.is_none() && now - e.first > limit).min_by_key(|(_, e)| e.first);
        let key = *abandoned.or(result).or(old)?.0;
        Some(vec![self.displace(key)])
    }

    fn displace(&mut self, key: Key) -> Event {
        match self.entries.remove(&key).unwrap().result {
            Some(_) => Event::EvictedResult(key),
            None => Event::EvictedPartial(key),
        }
    }

    /// In no particular order within a set.
    fn sweep(&mut self, sets: usize, epoch: u16) -> Vec<Event> {
        let all = self.sets;
        let mut events = Vec::new();
        for _ in 0..sets.min(all) {
            let of_set = |key: &Key| key.place(self.sets) == self.sweep_at && key.is_of(epoch);
            let outdated: Vec<Key> = self.entries.keys().copied().filter(of_set).collect();
            events.extend(outdated.into_iter().map(|key| self.displace(key)));
            self.sweep_at = (self.sweep_at + 1) % all;
        }
        events
    }
}

fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| format!("{event:?}"));
    events
}

fn compare<const WORDS: usize>(sets: usize, ways: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut rig = Rig::<WORDS>::of(&PoolConfig {
        age_limit: Duration::from_nanos(AGE_LIMIT * TICK),
        remind_interval: Duration::from_micros(REMIND_INTERVAL),
        ..config(sets * ways, ways)
    });
    let mut model = Model::new(sets, ways, u16::try_from(WORDS * 64).unwrap());
    for (n, step) in steps.iter().enumerate() {
        let (found, expected) = match step {
            Step::Offer(parcel) => (rig.offer(parcel), model.offer(parcel)),
            &Step::Sweep { sets, epoch } => {
                (sorted(rig.sweep(sets, |key| key.is_of(epoch))), sorted(model.sweep(sets, epoch)))
            }
        };
        prop_assert_eq!(found, expected, "step {} of {:?}", n, steps);
        rig.sink.take();
        prop_assert_eq!(rig.memory.live(), model.entries.len(), "packets held after step {}", n);
    }
    rig.close();
    Ok(())
}

fn layout() -> impl Strategy<Value = (usize, usize)> {
    (proptest::sample::select(vec![1usize, 2, 4]), proptest::sample::select(vec![1usize, 2, 4, 8]))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn with_bitmaps_of_one_word((sets, ways) in layout(), steps in trace(NARROW, true, 80)) {
        compare::<1>(sets, ways, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_bitmaps_for_1024_ranks((sets, ways) in layout(), steps in trace(WIDE, true, 30)) {
        compare::<16>(sets, ways, &steps)?;
    }
}
