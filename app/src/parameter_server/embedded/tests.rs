//! The server between two queues: in one thread with virtual time, and once for real.

use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::Order;
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_wire::trailer::Bitmap;
use pascaline_wire::{Element, Flags, Header, Kind};

use super::*;

const JOB: u16 = 7;
const EPOCH: u16 = 3;
/// For what takes milliseconds on an idle machine.
const SOON: Duration = Duration::from_secs(8);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn limits() -> ServerLimits {
    ServerLimits::new(16, 2, 64)
}

fn job(fan_in: u16) -> ServedJob {
    ServedJob { job: JOB, fan_in, epoch: EPOCH, needed: fan_in, order: Order::Arrival, payload: 64 }
}

fn gradient(rank: u16, psn: u32, fan_in: u16) -> Header {
    Header {
        flags: Flags::BYPASS,
        rank,
        psn,
        fan_in,
        count: 1,
        ..Header::about(Kind::Gradient, Element::F32_SUM, JOB, EPOCH)
    }
}

/// What has left the server, read back.
#[derive(Debug, PartialEq)]
struct Sent {
    kind: Kind,
    bypass: bool,
    rank: u16,
    psn: u32,
    count: u16,
    payload: Vec<u8>,
    bitmap: Option<Bitmap>,
}

fn read(packet: &HeapBuf) -> Sent {
    let (header, body) = Header::parse(packet.bytes()).unwrap();
    let (payload, trailer) = header.payload(body).unwrap();
    let &Header { kind, rank, psn, count, .. } = &header;
    assert_eq!((header.job, header.epoch), (JOB, EPOCH));
    Sent {
        kind,
        bypass: header.flags.has(Flags::BYPASS),
        rank,
        psn,
        count,
        payload: payload.to_vec(),
        bitmap: trailer.and_then(|trailer| trailer.bitmap),
    }
}

fn result(psn: u32, count: u16, sum: f32) -> Sent {
    let payload = sum.to_le_bytes().to_vec();
    Sent { kind: Kind::Result, bypass: false, rank: 0, psn, count, payload, bitmap: None }
}

fn served(jobs: Vec<ServedJob>) -> ServedJobs {
    let served = ServedJobs::default();
    served.publish(jobs);
    served
}

type Alloc = Box<dyn FnMut(&[u8]) -> Option<HeapBuf> + Send>;

/// The server's end, and both queues.
struct Bench {
    pool: HeapPool,
    to: Arc<ArrayQueue<HeapBuf>>,
    from: Arc<ArrayQueue<HeapBuf>>,
    jobs: ServedJobs,
    end: End<HeapBuf, Alloc>,
}

impl Bench {
    /// A server of one job, with this much room on its way out.
    fn new(job: ServedJob, room: usize) -> Self {
        let pool = HeapPool::new();
        let source = pool.clone();
        Self::with(job, room, pool, Box::new(move |bytes| Some(source.alloc(bytes, bytes.len()))))
    }

    fn with(job: ServedJob, room: usize, pool: HeapPool, alloc: Alloc) -> Self {
        let (to, from) = (Arc::new(ArrayQueue::new(256)), Arc::new(ArrayQueue::new(room)));
        let (jobs, ends) = (served(vec![job]), ServerEnd { to: Arc::clone(&to), from: Arc::clone(&from) });
        let end = End::new(ends, alloc, jobs.clone(), limits(), Published::default());
        Self { pool, to, from, jobs, end }
    }

    fn give_bytes(&self, bytes: &[u8]) {
        assert!(self.to.push(self.pool.alloc(bytes, bytes.len())).is_ok());
    }

    fn give(&self, header: &Header, value: f32) {
        self.give_bytes(&[&header.to_bytes()[..], &value.to_le_bytes()].concat());
    }

    /// Turns until there is nothing left to do; for how long.
    fn settle(&mut self, now: Duration) -> Duration {
        loop {
            if let Some(nap) = self.end.turn(now) {
                return nap;
            }
        }
    }

    fn sent(&self) -> Vec<Sent> {
        core::iter::from_fn(|| self.from.pop()).map(|packet| read(&packet)).collect()
    }

    fn counters(&self) -> pascaline_ps::Counters {
        self.end.published.latest().counters
    }

    /// What the driver has counted.
    fn lost(&self) -> u64 {
        self.end.published.latest().driver[0].value
    }
}

#[test]
fn a_sum_that_is_complete_is_sent_and_no_packet_is_kept() {
    let mut bench = Bench::new(job(2), 16);
    // In the same turn as the job itself.
    bench.give(&gradient(0, 5, 2), 1.5);
    bench.give(&gradient(1, 5, 2), 2.0);
    assert_eq!(bench.settle(ms(1)), NAP);
    assert_eq!(bench.sent(), [result(5, 2, 3.5)]);
    assert_eq!(bench.pool.live(), 0);
    assert_eq!((bench.counters().received, bench.counters().finished), (2, 1));
}

#[test]
fn what_is_missing_is_asked_for_when_it_is_late() {
    let mut bench = Bench::new(job(3), 16);
    bench.give(&gradient(1, 9, 3), 1.0);
    assert_eq!(bench.settle(ms(0)), NAP, "no longer, whatever comes later");
    let config = limits().config;
    let just_before = config.initial - Duration::from_micros(300);
    assert_eq!(bench.settle(just_before), Duration::from_micros(300), "it wakes in time");
    assert_eq!(bench.sent(), []);
    bench.settle(config.initial);
    let sent: Vec<_> =
        bench.sent().iter().map(|sent| (sent.kind, sent.bypass, sent.rank, sent.psn)).collect();
    let (fetch, reminder) = (Kind::Fetch, Kind::Reminder);
    assert_eq!(sent, [(fetch, false, 0, 9), (reminder, true, 0, 9), (reminder, true, 2, 9)]);
    let partial =
        Header { kind: Kind::Partial, flags: Flags::TRAILER, count: 2, rank: 0, ..gradient(0, 9, 3) };
    let trailer = [&[1, 8][..], &0b101_u64.to_be_bytes(), &[0, 12]].concat();
    bench.give_bytes(&[&partial.to_bytes()[..], &7.0_f32.to_le_bytes(), &trailer].concat());
    bench.settle(config.initial + ms(1));
    assert_eq!(bench.sent(), [result(9, 3, 8.0)]);
    assert_eq!(bench.pool.live(), 0);
}

#[test]
fn where_there_is_no_room_the_server_waits() {
    let mut bench = Bench::new(job(1), 2);
    for psn in 0..5 {
        bench.give(&gradient(0, psn, 1), 1.0);
    }
    let mut seen = Vec::new();
    for turn in 0..4 {
        bench.settle(ms(turn));
        assert!(bench.from.len() <= 2);
        seen.extend(bench.sent().iter().map(|sent| sent.psn));
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    assert_eq!((bench.lost(), bench.pool.live()), (0, 0));
}

#[test]
fn what_finds_no_packet_is_lost_and_counted_and_can_be_had_again() {
    let pool = HeapPool::new();
    let source = pool.clone();
    let mut none_left = 1;
    let alloc = move |bytes: &[u8]| {
        none_left -= 1;
        (none_left < 0).then(|| source.alloc(bytes, bytes.len()))
    };
    let mut bench = Bench::with(job(1), 16, pool, Box::new(alloc));
    bench.give(&gradient(0, 5, 1), 4.0);
    bench.settle(ms(0));
    assert_eq!((bench.sent(), bench.lost()), (vec![], 1));
    // Sent again of the rank's own accord.
    bench.give(&Header { flags: Flags::RETRANSMISSION, ..gradient(0, 5, 1) }, 4.0);
    bench.settle(ms(1));
    assert_eq!(bench.sent(), [Sent { bypass: true, ..result(5, 1, 4.0) }]);
    assert_eq!((bench.lost(), bench.pool.live()), (1, 0));
}

#[test]
fn a_list_of_jobs_disturbs_only_what_it_changes() {
    let mut bench = Bench::new(job(2), 16);
    let other = ServedJob { job: 8, ..job(4) };
    bench.give(&gradient(0, 5, 2), 1.0);
    bench.settle(ms(0));
    bench.jobs.publish(vec![other, job(2)]);
    bench.settle(ms(1));
    let open = |bench: &Bench| -> Vec<(u16, usize)> {
        bench.end.published.latest().jobs.iter().map(|(job, usage)| (*job, usage.open)).collect()
    };
    assert_eq!(open(&bench), [(7, 1), (8, 0)]);
    // Of two lists, the later one counts.
    bench.jobs.publish(vec![]);
    bench.jobs.publish(vec![ServedJob { epoch: 4, ..job(2) }]);
    bench.settle(ms(2));
    assert_eq!(open(&bench), [(7, 0)]);
    assert_eq!(bench.counters().forgotten, 1);
    bench.give(&gradient(1, 5, 2), 1.0);
    bench.settle(ms(3));
    assert_eq!(bench.counters().rejected(pascaline_ps::RejectReason::WrongEpoch), 1);
}

#[test]
fn a_job_that_does_not_fit_is_refused_and_counted_once() {
    let mut bench = Bench::new(ServedJob { fan_in: 2000, ..job(2) }, 16);
    for turn in 0..3 {
        bench.settle(ms(turn));
        bench.jobs.publish(vec![ServedJob { fan_in: 2000, ..job(2) }]);
    }
    let latest = bench.end.published.latest();
    assert_eq!((latest.jobs_refused, latest.jobs.len()), (1, 0));
}

#[test]
fn bytes_that_are_no_packet_are_counted_and_let_go() {
    let mut bench = Bench::new(job(2), 16);
    let good = gradient(0, 5, 2).to_bytes();
    bench.give_bytes(&[]);
    bench.give_bytes(&good[..21]);
    bench.give_bytes(&[&good[..], &[0; 3]].concat());
    bench.settle(ms(0));
    let counters = bench.counters();
    let malformed = |reason| counters.malformed(reason);
    assert_eq!(malformed(pascaline_wire::Malformed::Truncated), 2);
    assert_eq!(malformed(pascaline_wire::Malformed::PayloadLength), 1);
    assert_eq!((bench.sent(), bench.pool.live()), (vec![], 0));
}

#[test]
fn without_lost_ranks_a_result_says_who_is_inside() {
    let mut bench = Bench::new(ServedJob { needed: 2, ..job(3) }, 16);
    bench.give(&gradient(0, 5, 3), 1.0);
    bench.give(&gradient(2, 5, 3), 2.0);
    bench.settle(ms(0));
    let mut bitmap = Bitmap::new(3).unwrap();
    assert!(bitmap.insert(0) && bitmap.insert(2));
    assert_eq!(bench.sent(), [Sent { bitmap: Some(bitmap), ..result(5, 2, 3.0) }]);
}

#[test]
fn requests_are_paced_by_time_and_not_by_turns() {
    let mut bench = Bench::new(job(1000), 4096);
    bench.give(&gradient(0, 5, 1000), 1.0);
    bench.settle(ms(0));
    let burst = limits().config.burst as usize;
    let mut asked = 0;
    let mut now = limits().config.initial;
    while asked < 1000 {
        bench.settle(now);
        let sent = bench.sent().len();
        assert!(sent > 0 && sent <= burst, "{sent} at once");
        asked += sent;
        let nap = bench.settle(now);
        assert!(asked == 1000 || nap == Duration::from_micros(100), "{nap:?} after {asked}");
        assert_eq!(bench.sent(), []);
        now += Duration::from_micros(100);
    }
    // One fetch, and all ranks but the one that is inside.
    assert_eq!(asked, 1000);
}

/// Waits for something, without a word of how long it should take.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}: not after {SOON:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_serves_until_it_is_stopped() {
    let pool = HeapPool::new();
    let (to, from) = (Arc::new(ArrayQueue::new(64)), Arc::new(ArrayQueue::new(64)));
    let source = pool.clone();
    let alloc = move |bytes: &[u8]| Some(source.alloc(bytes, bytes.len()));
    let end = ServerEnd { to: Arc::clone(&to), from: Arc::clone(&from) };
    let server = EmbeddedServer::spawn(end, served(vec![job(2)]), alloc, limits()).unwrap();
    for psn in 0..200 {
        for rank in 0..2 {
            let bytes = [&gradient(rank, psn, 2).to_bytes()[..], &1.0_f32.to_le_bytes()].concat();
            until("room for a packet", || to.push(pool.alloc(&bytes, bytes.len())).ok());
        }
        let packet = until("a result", || from.pop());
        assert_eq!(read(&packet), result(psn, 2, 2.0));
    }
    let published = server.published();
    until("a snapshot", || (published.latest().counters.finished == 200).then_some(()));
    assert!(!server.is_finished());
    let last = server.stop().unwrap();
    assert_eq!((last.counters.received, last.counters.results_sent), (400, 200));
    assert_eq!((pool.live(), Arc::strong_count(&to)), (0, 1), "the thread is gone");
}

#[test]
fn a_panic_is_told_to_who_asks() {
    let (to, from) = (Arc::new(ArrayQueue::new(4)), Arc::new(ArrayQueue::<HeapBuf>::new(4)));
    let alloc = |_: &[u8]| panic!("no memory of that kind");
    let end = ServerEnd { to: Arc::clone(&to), from };
    let server = EmbeddedServer::spawn(end, served(vec![job(1)]), alloc, limits()).unwrap();
    let bytes = [&gradient(0, 5, 1).to_bytes()[..], &1.0_f32.to_le_bytes()].concat();
    assert!(to.push(HeapPool::new().alloc(&bytes, bytes.len())).is_ok());
    until("the end of the thread", || server.is_finished().then_some(()));
    let error = server.stop().unwrap_err();
    assert_eq!(error.to_string(), "the parameter server panicked: no memory of that kind");
}

#[test]
fn dropping_it_ends_the_thread() {
    let (to, from) = (Arc::new(ArrayQueue::<HeapBuf>::new(4)), Arc::new(ArrayQueue::new(4)));
    let end = ServerEnd { to: Arc::clone(&to), from: Arc::clone(&from) };
    let server = EmbeddedServer::spawn(end, ServedJobs::default(), |_| None, limits()).unwrap();
    drop(server);
    assert_eq!((Arc::strong_count(&to), Arc::strong_count(&from)), (1, 1));
}
