//! An appliance that seals, and ranks that talk to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use pascaline_seal::{Cipher, JobKeys, LONGER, Opened};
use pascaline_wire::control::{self, Action, Control};
use pascaline_wire::{Header, Kind, header};
use pascaline_worker::{Config, Holder, Protection, Seals, Secret, Worker};

use crate::adversary::{Conditions, chance};
use crate::aggregator::{Aggregator, Out};
use crate::driver::{Appliance, JOB, RANKS};

pub(super) fn secret() -> Secret {
    Secret::new(&[7; 32]).unwrap()
}

pub(super) fn seals(job: u16, rank: u16, protection: Protection) -> Option<Seals> {
    Some(Seals::of(job, Holder::of(&secret(), job, rank, protection)))
}

pub(super) fn sealed(appliance: &Appliance, rank: u16, protection: Protection) -> Config {
    Config { seals: seals(JOB, rank, protection), ..appliance.config(rank) }
}

/// An appliance's end of a sealed job, around an aggregator for plain packets.
pub(super) struct End {
    pub(super) keys: JobKeys,
    pub(super) salt: u64,
    pub(super) results: Cipher,
    pub(super) protection: Protection,
    pub(super) sessions: BTreeMap<u16, u64>,
    /// Ranks, sessions and numbers of all that has come.
    pub(super) seen: Arc<Mutex<BTreeSet<(u16, u64, u64)>>>,
    pub(super) sent: u64,
}

impl End {
    pub(super) fn new(job: u16, protection: Protection, salt: u64) -> Self {
        let keys = JobKeys::new(&secret(), job, protection);
        let results = keys.results(salt);
        let (sessions, seen) = (BTreeMap::new(), Arc::default());
        Self { keys, salt, results, protection, sessions, seen, sent: 0 }
    }

    /// The plain datagram. Everything that a rank sends is sealed, under a number that it has not used.
    pub(super) fn open(&mut self, datagram: &[u8]) -> Vec<u8> {
        let (header, body) = Header::parse(datagram).unwrap();
        if header.kind == Kind::Control {
            let request = Control::parse(&body[..control::LEN]).unwrap();
            self.sessions.insert(header.rank, request.session);
        }
        let session = self.sessions[&header.rank];
        let mut plain = datagram.to_vec();
        let Opened { len, counter } = self.keys.rank(header.rank).up.open(session, &mut plain).unwrap();
        let news = self.seen.lock().unwrap().insert((header.rank, session, counter));
        assert!(news, "rank {} has used number {counter} of session {session} twice", header.rank);
        plain.truncate(len);
        let longer = if plain[2] & 0b10_0000 == 0 { LONGER } else { LONGER - 2 };
        assert_eq!(datagram.len(), len + longer);
        let same = datagram[header::LEN..len] == plain[header::LEN..];
        let hidden = self.protection == Protection::Encrypt && header.kind != Kind::Control;
        assert!(len < header::LEN + 16 || same != hidden, "{header:?}");
        plain
    }

    pub(super) fn seal(&mut self, (rank, bytes): Out) -> Out {
        let (header, body) = Header::parse(&bytes).unwrap();
        let ack = (header.kind == Kind::Control)
            .then(|| Control::parse_with_trailer(&header, body).unwrap().0)
            .filter(|ack| ack.answers.is_some());
        let (len, mut room) = (bytes.len(), [&bytes[..], &[0; LONGER]].concat());
        let sealed = match ack {
            Some(ack) => {
                let salted = if ack.answers == Some(Action::Join) { ack.with_salt(self.salt) } else { ack };
                salted.emit(&mut room[header::LEN..]).unwrap();
                self.sent += 1;
                self.keys.rank(rank).down.seal(ack.session, self.sent << 20, &mut room, len)
            }
            None => {
                self.sent += 1;
                self.results.seal(0, self.sent, &mut room, len)
            }
        };
        room.truncate(sealed.unwrap());
        (rank, room)
    }

    /// The sealed answers of an aggregator.
    pub(super) fn handle(
        &mut self,
        aggregator: &mut Aggregator,
        datagram: &[u8],
        conditions: &Conditions,
        random: &mut Rng,
    ) -> Vec<Out> {
        let plain = self.open(datagram);
        if chance(random, conditions.loss) {
            return Vec::new();
        }
        let mut answers = aggregator.handle(&plain, conditions, random);
        answers.retain(|_| !chance(random, conditions.loss));
        answers.into_iter().map(|out| self.seal(out)).collect()
    }

    pub(super) fn serve(mut self, conditions: Conditions) -> Appliance {
        let (mut aggregator, mut random) = (Aggregator::new(JOB, RANKS, 64), Rng::with_seed(1));
        Appliance::serve("127.0.0.1:0", move |datagram| {
            self.handle(&mut aggregator, datagram, &conditions, &mut random)
        })
    }
}

pub(super) fn on_every_rank<T: Send>(
    config: impl Fn(u16) -> Config + Sync,
    work: impl Fn(u16, Worker) -> T + Sync,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let (config, work) = (&config, &work);
        let start = |rank| scope.spawn(move || work(rank, Worker::join(config(rank)).unwrap()));
        let threads: Vec<_> = (0..RANKS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(super) fn sum(rank: u16, worker: &mut Worker, elements: usize) {
    let mut tensor: Vec<i32> = (0..).map(|i| i * (i32::from(rank) + 1)).take(elements).collect();
    worker.allreduce(&mut tensor).unwrap();
    assert!(tensor.iter().zip(0..).all(|(&sum, i)| sum == 6 * i), "{elements}");
}
