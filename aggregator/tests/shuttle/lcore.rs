//! A pool of two lcores, each a thread of shuttle's that does in its turns what one of pipelines does.

use std::collections::BTreeMap;
use std::sync::Arc as Shared;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pascaline_aggregator::{
    Burst, ConflictPolicy, Key, Order, Policy, Pool, PoolConfig, Region, Request, Rules, Session, Shares,
    SweepAction, Tenant, Terms, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, SharedBuf};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;

use crate::books::{Account, Books, Offer, payload};
use crate::common::{self, Parcel, TICK, signature};

/// How often each kind of event came.
pub(crate) type Seen = BTreeMap<&'static str, usize>;

/// Lcores of a pool.
pub(crate) const LCORES: usize = 2;
/// Turns after which an lcore gives up: far more than any schedule needs.
const TURNS: usize = 5000;

/// Jobs by number: plain, with a parameter server and priorities, with a quota, the same as the second with
/// contributions added by rank, and with a region in which two ranks suffice.
pub(crate) const PLAIN: u16 = 0;
pub(crate) const SERVED: u16 = 1;
pub(crate) const QUOTA: u16 = 2;
pub(crate) const RANKED: u16 = 3;
pub(crate) const REGION: u16 = 4;

/// Slots of the region, in two sets of two: of a pool with 16 slots, the last ones.
const RESERVED: usize = 4;

fn region(job: u16) -> Option<Region> {
    (job == REGION).then_some(Region { first: 6, sets: 2 })
}

/// A job's rules, in all models.
pub(crate) fn rules(job: u16) -> Rules {
    let policy = match job {
        SERVED => Policy { conflict: ConflictPolicy::Preempt, server: true, ..Policy::default() },
        QUOTA => Policy { quota: 1, ..Policy::default() },
        RANKED => Policy {
            conflict: ConflictPolicy::Preempt,
            order: Order::Rank,
            server: true,
            ..Policy::default()
        },
        REGION => Policy { region: region(job), ..Policy::default() },
        _ => Policy::default(),
    };
    Rules::of(&policy).of_tenant(Tenant(u8::try_from(job).expect("few jobs")))
}

/// The contribution of a rank.
pub(crate) fn part(key: Key, rank: u16, fan_in: u16) -> Parcel {
    let needed = if key.job() == REGION { 2 } else { fan_in };
    let parcel = Parcel::add(key, rank, fan_in, &signature(rank, fan_in)).needing(needed);
    parcel.with(|r| r.rules = rules(key.job()))
}

/// The reminder of a rank.
pub(crate) fn reminder(key: Key, rank: u16, fan_in: u16) -> Parcel {
    Parcel::remind(key, rank, fan_in).with(|r| r.rules = rules(key.job()))
}

/// The tables of jobs, one after the other.
#[derive(Debug, Default)]
struct News {
    /// The latest.
    version: AtomicUsize,
    /// Lcores that have it: no rank learns of a generation before all have.
    adopted: AtomicUsize,
    /// The clock of both: a tick with each turn.
    time: AtomicU64,
}

/// Generation and shares of a table.
fn table(version: usize) -> (u16, Shares) {
    let weights: &[(u8, u16)] = if version == 0 { &[(0, 1), (2, 1)] } else { &[(0, 1), (2, 3)] };
    let epoch = u16::try_from(version).expect("few versions");
    (epoch, Shares::by_weight(weights.iter().map(|&(tenant, weight)| (Tenant(tenant), weight))))
}

struct Lcore {
    session: Session<HeapBuf>,
    books: Books,
    work: Vec<Offer>,
    news: Shared<News>,
    version: usize,
    /// The version that it ends with.
    last: usize,
    now: u64,
}

impl Lcore {
    /// Until both have worked everything off.
    fn run(mut self) -> Self {
        self.session.set_shares(&table(0).1);
        let mut closed = false;
        for _ in 0..TURNS {
            self.now = self.news.time.fetch_add(TICK, Ordering::SeqCst);
            self.adopt();
            let some = thread_rng().gen_range(0..=3).min(self.work.len());
            let lot = self.work.drain(..some).collect();
            self.bring_in(lot);
            if thread_rng().gen_bool(0.5) {
                self.session.resume(&mut self.books);
            }
            if thread_rng().gen_bool(0.25) {
                self.sweep(1);
            }
            self.work.append(&mut self.books.again);
            // From here on it brings in only what others have handed to it, and so what is of its own sets.
            if self.work.is_empty() && !closed && self.version == self.last {
                self.session.close();
                closed = true;
            }
            if closed && self.work.is_empty() && self.session.is_alone() {
                return self;
            }
            thread::yield_now();
        }
        panic!("no end: {:?}, {:?}", self.session, self.books);
    }

    fn adopt(&mut self) {
        if self.version != self.news.version.load(Ordering::SeqCst) {
            self.version += 1;
            let (epoch, shares) = table(self.version);
            self.session.set_shares(&shares);
            self.books.epoch = epoch;
            self.news.adopted.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Refuses what is of the past, and brings in the rest, one by one or as a burst.
    fn bring_in(&mut self, lot: Vec<Offer>) {
        let all_know = self.news.adopted.load(Ordering::SeqCst) == LCORES;
        let mut burst = Vec::new();
        for (mut request, packet) in lot {
            request.now = self.now;
            if !request.key.is_of(self.books.epoch) && request.key.generation() == 0 {
                self.books.note("of the past");
                self.books.goes(request.key, &payload(&request, &packet));
            } else if request.key.generation() > 0 && !all_know {
                self.work.push((request, packet));
            } else if is_fast(&request) && thread_rng().gen_bool(0.5) {
                burst.push((request, packet));
            } else {
                self.books.offered += 1;
                let region = region(request.key.job());
                self.session.offer(&request, region, packet, &mut self.books);
            }
        }
        self.bring_in_burst(burst);
    }

    fn bring_in_burst(&mut self, offers: Vec<Offer>) {
        self.books.offered += offers.len();
        let (whole, packets): (Vec<_>, Vec<_>) = offers.into_iter().unzip();
        self.books.whole = whole;
        let terms: Vec<_> = self.books.whole.iter().map(terms_of).collect();
        let mut known = terms
            .iter()
            .zip(&self.books.whole)
            .map(|(terms, request)| (terms, terms.gradient(request.key.psn(), request.element, request.len)));
        let mut burst = Burst::new();
        self.session.gather(&mut burst, packets.into_iter(), |_| known.next(), |_| panic!("all are known"));
        self.session.add_burst(&mut burst, self.now, &mut self.books);
    }

    fn sweep(&mut self, sets: usize) {
        let epoch = self.books.epoch;
        let judge = |key: Key, first: Option<u64>| match first {
            _ if !key.is_of(epoch) => SweepAction::Vacate,
            // Its time is up.
            Some(_) if key.job() == REGION && thread_rng().gen_bool(0.2) => SweepAction::Release,
            _ => SweepAction::Keep,
        };
        self.session.sweep(sets, judge, &mut self.books);
    }
}

/// True if the fast path recognises it.
fn is_fast(request: &Request) -> bool {
    request.verb == Verb::Add && request.inside == 0 && !request.again
}

fn terms_of(request: &Request) -> Terms {
    let &Request { key, rank, fan_in, needed, .. } = request;
    Terms::new(key.job(), key.generation().into(), rank, fan_in, needed, region(key.job()))
}

/// What a model has.
pub(crate) struct Model {
    pub(crate) slots: usize,
    pub(crate) ways: usize,
    /// Another table of jobs comes, at any time.
    pub(crate) news: bool,
    /// Turns of both after which a partial may have to go; none for never.
    pub(crate) age: Option<u64>,
    /// Some slots are the region's.
    pub(crate) reserved: bool,
    pub(crate) parcels: Vec<Parcel>,
}

impl Model {
    /// Deals the packets over the lcores in any order, runs these, and checks what they leave.
    pub(crate) fn run(&self) -> Seen {
        let memory = HeapPool::new();
        let mut lcores = self.lcores(&memory);
        let news = Shared::clone(&lcores[0].news);
        let control = self.news.then(|| thread::spawn(move || news.version.store(1, Ordering::SeqCst)));
        let threads: Vec<_> = lcores.drain(..).map(|lcore| thread::spawn(move || lcore.run())).collect();
        if let Some(control) = control {
            control.join().expect("it has said so");
        }
        let lcores = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        self.check(lcores, &memory)
    }

    fn lcores(&self, memory: &HeapPool) -> Vec<Lcore> {
        let reserved = if self.reserved { RESERVED } else { 0 };
        let age_limit = self.age.map_or(Duration::MAX, |turns| Duration::from_nanos(turns * TICK));
        let config = PoolConfig { reserved, age_limit, ..common::config(self.slots, self.ways) };
        let sessions = Pool::sessions(&config, Kernels::scalar(), LCORES).expect("a valid layout");
        let (news, open) = (Shared::new(News::default()), Shared::default());
        let lcore = |session| Lcore {
            session,
            books: Books::new(memory, &open),
            work: Vec::new(),
            news: Shared::clone(&news),
            version: 0,
            last: usize::from(self.news),
            now: 0,
        };
        let mut lcores: Vec<_> = sessions.into_iter().map(lcore).collect();
        for parcel in &self.parcels {
            let Request { key, fan_in, .. } = parcel.request;
            lcores.iter_mut().for_each(|lcore| lcore.books.account(key).fan_in = fan_in);
            let lcore = &mut lcores[thread_rng().gen_range(0..LCORES)];
            let packet = parcel.packet(memory);
            if parcel.request.verb == Verb::Add {
                lcore.books.comes(&parcel.request, &packet);
            }
            let at = thread_rng().gen_range(0..=lcore.work.len());
            lcore.work.insert(at, (parcel.request, packet));
        }
        lcores
    }

    fn check(&self, mut lcores: Vec<Lcore>, memory: &HeapPool) -> Seen {
        for Lcore { books, .. } in &mut lcores {
            for (payload, bytes) in books.sent.drain(..) {
                assert_eq!(payload.bytes(), bytes, "a result that is on its way does not change");
            }
        }
        let held: usize = lcores.iter().map(|lcore| lcore.session.packets()).sum();
        assert_eq!(memory.live(), held, "each packet that has not come back is in a slot");
        let (mut accounts, mut seen) = (BTreeMap::<u64, Account>::new(), Seen::new());
        let (mut offered, mut answered) = (0, 0);
        for Lcore { mut session, mut books, .. } in lcores {
            books.seen.iter().for_each(|(what, count)| *seen.entry(what).or_default() += count);
            // All is of the past now.
            books.epoch = u16::MAX;
            session.sweep(session.sets(), |_, _| SweepAction::Vacate, &mut books);
            assert_eq!(session.packets(), 0);
            for (key, account) in books.accounts {
                accounts.entry(key).or_default().absorb(account);
            }
            (offered, answered) = (offered + books.offered, answered + books.answered);
        }
        assert_eq!(memory.live(), 0, "packets leaked");
        assert_eq!(answered, offered, "each request has one answer");
        for (key, account) in accounts.iter().map(|(&bits, account)| (Key::from_bits(bits), account)) {
            self.balance(key, account);
        }
        seen
    }

    fn balance(&self, key: Key, account: &Account) {
        account.balance(key);
        let results = account.results.len();
        assert!(results <= 1, "{key:?} has two results: {account:?}");
        match key.job() {
            // A PSN older than all in its set is refused, whether it has had a result or not.
            REGION => {}
            SERVED | RANKED => {
                let pieces = account.gone.iter().any(|&gone| gone > 0);
                assert!(results == 0 || !pieces, "{key:?} has a result and pieces: {account:?}");
            }
            _ if key.is_of(self.news.into()) => assert!(results > 0, "{key:?} has no result: {account:?}"),
            _ => {}
        }
    }
}
