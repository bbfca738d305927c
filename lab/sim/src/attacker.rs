//! An attacker on the path of jobs whose packets are sealed: without keys, and with everything else.
//!
//! It sees each frame between a rank and the appliance, and sends recorded ones again, also to other ranks
//! and much later, changed in one bit, cut off, or with the seal of another frame. None of these may be
//! taken. It also looks whether any number is used twice with one key, which would break the cipher.
//!
//! Where a fuzzer makes its decisions, it has a *script*, and attacks jobs without seals, too: there from an
//! address of its own, since on their path it could do as it likes.

use std::collections::{BTreeMap, VecDeque};

use pascaline_seal::{Holder, JobKeys, LONGER, Protection, Secret, counter};
use pascaline_wire::control::{self, Action, Control};
use pascaline_wire::header::{self, Header, Kind};

use crate::plan::{JobPlan, MILLI};
use crate::random::Random;
use crate::violation::Violation;

/// Frames that it remembers of each direction.
const REMEMBERED: usize = 64;
/// How often it sends a frame of its own after one that it has seen, in millionths.
const OFTEN: u32 = 60_000;
/// The latest that it does so.
pub(crate) const LATEST: u64 = 3_000 * MILLI;
/// Fields that seals do not cover.
const UNCOVERED: [usize; 4] = [6, 7, 18, 19];

/// The secret of a job at one appliance; another one once its key has changed.
pub(crate) fn secret(job: u16, node: usize, changed: bool) -> Option<Secret> {
    let node = u8::try_from(node).unwrap_or(u8::MAX);
    Secret::new(&[&job.to_be_bytes()[..], &[node], &[if changed { 0xa5 } else { 0x5a }; 29]].concat())
}

/// The keys of a rank of an appliance; `None` where the job's packets are not sealed.
pub(crate) fn holder(plan: &JobPlan, (node, rank): (usize, u16), changed: bool) -> Option<Holder> {
    let (protection, secret) = plan.sealed.zip(secret(plan.id, node, changed))?;
    Some(Holder::of(&secret, plan.id, rank, protection))
}

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Up,
    Down,
}

/// A number under one key: the way, the job, the rank or 0 for results, the first half of the nonce, and the
/// second.
type Used = (Way, u16, u16, u64, u64);

/// Its memory.
#[derive(Debug)]
pub(crate) struct Attacker {
    random: Random,
    /// What it does, in place of random numbers.
    script: Option<VecDeque<u8>>,
    up: Vec<Vec<u8>>,
    down: Vec<Vec<u8>>,
    used: BTreeMap<Used, Vec<u8>>,
}

/// A datagram that it sends, and how long after what it has seen.
pub(crate) type Forged = (u64, Vec<u8>);

impl Attacker {
    /// One with random numbers of its own.
    pub(crate) fn new(seed: u64) -> Self {
        let (up, down, used) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { random: Random::new(seed ^ 0xa77a_c4e5), script: None, up, down, used }
    }

    /// It does from now on what these bytes say.
    pub(crate) fn follow(&mut self, script: &[u8]) {
        self.script = Some(script.iter().copied().collect());
    }

    /// Whether it does what a script says.
    pub(crate) const fn has_script(&self) -> bool {
        self.script.is_some()
    }

    /// Sees a sealed datagram on its way, of a rank in this session or to one from an appliance in this life.
    /// Returns one of its own, perhaps.
    ///
    /// # Errors
    /// A number that is used twice.
    pub(crate) fn see(
        &mut self,
        way: Way,
        (session, life): (u64, u64),
        datagram: &[u8],
    ) -> Result<Option<Forged>, Violation> {
        self.note(way, (session, life), datagram)?;
        let Self { random, script, up, down, .. } = self;
        let seen = if way == Way::Up { up } else { down };
        let at = random.index(REMEMBERED);
        match seen.get_mut(at) {
            Some(old) => *old = datagram.to_vec(),
            None => seen.push(datagram.to_vec()),
        }
        if let Some(script) = script {
            return Ok(scripted(script, seen));
        }
        if !random.chance(OFTEN) {
            return Ok(None);
        }
        let mut forged = seen.get(random.index(seen.len())).cloned().unwrap_or_default();
        let other = seen.get(random.index(seen.len())).cloned().unwrap_or_default();
        match random.below(5) {
            0 => {}
            1 => {
                let at = random.index(forged.len());
                let bit = random.index(8);
                if let Some(byte) = forged.get_mut(at).filter(|_| !UNCOVERED.contains(&at)) {
                    *byte ^= 1_u8 << bit;
                }
            }
            2 => forged.truncate(header::LEN + random.index(forged.len().saturating_sub(header::LEN).max(1))),
            3 => {
                let tail = other.len().min(forged.len()).min(random.pick(&[18, 26, 28]));
                let (at, from) = (forged.len() - tail, other.len() - tail);
                forged[at..].copy_from_slice(&other[from..]);
            }
            // As another rank's.
            _ => forged.iter_mut().skip(7).take(1).for_each(|rank| *rank ^= 1),
        }
        let after = if random.chance(500_000) { random.below(MILLI) } else { random.below(LATEST) };
        Ok(Some((after, forged)))
    }

    /// Notes the number that a seal has used.
    fn note(&mut self, way: Way, (session, life): (u64, u64), datagram: &[u8]) -> Result<(), Violation> {
        let (Some(number), Ok((header, body))) = (counter(datagram), Header::parse(datagram)) else {
            return Ok(());
        };
        // In line the appliance passes on frames of ranks that do not name it as their destination.
        let from_rank = header.kind == Kind::Gradient || header.kind == Kind::Control && !is_ack(body);
        if way == Way::Down && from_rank {
            return Ok(());
        }
        let answer = body.get(..control::LEN).filter(|_| header.kind == Kind::Control);
        let answer = answer.and_then(|body| Control::parse(body).ok());
        let used = match (way, answer) {
            (Way::Up, _) => (way, header.job, header.rank, session, number),
            (Way::Down, Some(answer)) if answer.answers.is_some() => {
                (way, header.job, header.rank + 1, answer.session, number)
            }
            (Way::Down, _) => (way, header.job, 0, life, number),
        };
        let mut covered = datagram.to_vec();
        UNCOVERED.into_iter().filter_map(|at| covered.get_mut(at).map(|byte| *byte = 0)).for_each(drop);
        if self.used.entry(used).or_insert_with(|| covered.clone()) != &covered {
            return Err(Violation::NumberTwice { job: header.job, rank: header.rank, number });
        }
        Ok(())
    }
}

/// What a script says about a frame that it has just seen. Its first byte: wait for this many frames, or send
/// one of those seen. Then when, which one, from where on it is changed, how many bytes (from 128 on: that
/// many less it is longer), and the changes.
fn scripted(script: &mut VecDeque<u8>, seen: &[Vec<u8>]) -> Option<Forged> {
    const SEND: u8 = 0xc0;
    if let Some(wait @ 1..SEND) = script.front_mut() {
        *wait -= 1;
        return None;
    }
    let mut next = || script.pop_front();
    let _ = next()?;
    let [after, which, at, count] = [next()?, next()?, next()?, next()?].map(usize::from);
    let mut forged = seen.get(which % seen.len().max(1))?.clone();
    let end = if count < 128 { (at + count).min(forged.len()) } else { forged.len() + count - 127 };
    forged.resize(end.max(forged.len()), 0);
    for place in (at..end).filter(|place| !UNCOVERED.contains(place)) {
        *forged.get_mut(place)? ^= next()?;
    }
    // No changes: it ends there.
    if count == 0 {
        forged.truncate(at.max(1));
    }
    Some((after as u64 * MILLI / 16, forged))
}

/// True for a control body that answers or rejects.
fn is_ack(body: &[u8]) -> bool {
    let control = body.get(..control::LEN).map(Control::parse);
    control.is_some_and(|control| control.is_ok_and(|control| control.action == Action::Ack))
}

/// A gradient of a rank, changed and sealed again: what an attacker with the job's keys can send.
pub(crate) fn with_keys(
    plan: &JobPlan,
    (node, rank): (usize, u16),
    session: u64,
    datagram: &[u8],
) -> Option<Vec<u8>> {
    let (protection, secret) = plan.sealed.zip(secret(plan.id, node, false))?;
    let cipher = JobKeys::new(&secret, plan.id, protection).rank(rank).up;
    let number = counter(datagram)? | 1 << 60;
    let mut room = datagram.to_vec();
    let len = cipher.open(session, &mut room).ok()?.len;
    room.get_mut(header::LEN..len)?.first_mut().map(|first| *first ^= 0x40)?;
    let is_gradient = room.get(1) == Some(&(Kind::Gradient as u8));
    room.resize(len + LONGER, 0);
    let sealed = cipher.seal(session, number, &mut room, len).filter(|_| is_gradient)?;
    room.truncate(sealed);
    Some(room)
}

/// How the packets of a schedule's sealed jobs are protected: half of the schedules each way.
pub(crate) fn protection(seed: u64) -> Protection {
    if seed.is_multiple_of(2) { Protection::Mac } else { Protection::Encrypt }
}
