//! The pool's cases.

use pascaline_aggregator::{
    Aggregate, BURST, Burst, BurstSink, Cause, Contribution, Evicted, Gradient, Key, Order, Pool, PoolConfig,
    Rejection, Request, Rules, Session, Sink,
};
use pascaline_buffer::PacketBuf as _;
use pascaline_pipelines::classify::{Classifier, PAYLOAD_OFFSET};
use pascaline_pipelines::{Job, JobTable};
use pascaline_testkit::port_mac;
use pascaline_wire::fast_path::Lengths;

use super::slab::{Slab, SlabBuf, SlabShared};
use super::{ELEMENTS, FAN_IN, PSNS, counted, kernels, setup, the_job, worker};

/// Keeps what is spent, and counts results.
#[derive(Default)]
struct Counts {
    spent: Vec<SlabBuf>,
    opened: u32,
    completed: u32,
    /// Without an event.
    added: usize,
}

impl Sink<SlabBuf> for Counts {
    fn opened(&mut self, _: &Contribution) {
        self.opened += 1;
    }
    fn added(&mut self, _: &Contribution) {}
    fn completed(&mut self, _: &Contribution, _: bool, _: Aggregate<'_, SlabShared>) {
        self.completed += 1;
    }
    fn rejected(&mut self, _: &Request, _: SlabBuf, why: Rejection) {
        panic!("{why:?}");
    }
    fn recycled(&mut self, packet: SlabBuf) {
        self.spent.push(packet);
    }
    fn evicted(&mut self, _: Key, _: Evicted<SlabBuf>, _: Cause) {
        unreachable!("there is room");
    }
}

impl BurstSink<SlabBuf> for Counts {
    const PAYLOAD_OFFSET: u16 = PAYLOAD_OFFSET;

    fn rules(&self, _: u16) -> Rules {
        Rules::default()
    }
    fn priority(&self, _: &SlabBuf) -> u16 {
        0
    }
    fn whole_request(&mut self, _: &Gradient, _: &SlabBuf, _: u64) -> Request {
        unreachable!("all are expected")
    }
    fn worked_off(&mut self, _: &Burst<SlabBuf>, added: usize, _: u64) {
        self.added += added;
    }
}

/// All contributions with their requests, in order of arrival: rank 0 for all PSNs, then rank 1.
struct Traffic {
    session: Session<SlabBuf>,
    sink: Counts,
    job: Job,
    packets: Vec<SlabBuf>,
}

impl Traffic {
    fn new(order: Order) -> Self {
        let config = PoolConfig { slots: 256, ways: 4, ..PoolConfig::default() };
        let mut job = the_job();
        job.policy.order = order;
        let slab = Slab::new(1024);
        let frame = |psn, rank| worker(rank).gradient(psn, &[1; ELEMENTS]);
        let all = (0..FAN_IN).flat_map(|rank| (0..PSNS).map(move |psn| (psn, rank)));
        Self {
            session: Pool::sessions(&config, kernels(), 1).unwrap().pop().unwrap(),
            sink: Counts { spent: Vec::with_capacity(1024), ..Counts::default() },
            job,
            packets: all.map(|(psn, rank)| slab.take(&frame(psn, rank)).unwrap()).collect(),
        }
    }

    /// Brings so many packets into the pool as a whole request each.
    fn offer(&mut self, count: u32, with: impl FnOnce(&mut dyn FnMut())) {
        let (setup, table) = (setup(), JobTable::new(vec![self.job.clone()]));
        let classifier = Classifier { setup: &setup, table: &table, port: 0, mac: port_mac(0), now: 1 };
        let requests: Vec<_> = self
            .packets
            .drain(..count as usize)
            .map(|packet| {
                let gradient =
                    classifier.recognise(packet.bytes(), &mut { Lengths::NONE }).unwrap().gradient();
                (classifier.request(&gradient, packet.bytes()), packet)
            })
            .collect();
        let (session, sink) = (&mut self.session, &mut self.sink);
        let mut requests = Some(requests);
        with(&mut || {
            for (request, packet) in requests.take().into_iter().flatten() {
                session.offer(&request, None, packet, sink);
            }
        });
    }

    /// Adds `count` packets that are expected, burst by burst.
    fn add(&mut self, count: u32, with: impl FnOnce(&mut dyn FnMut())) {
        let (setup, table) = (setup(), JobTable::new(vec![self.job.clone()]));
        let classifier = Classifier { setup: &setup, table: &table, port: 0, mac: port_mac(0), now: 1 };
        let mut packets: Vec<_> = self.packets.drain(..count as usize).collect();
        let recognised =
            |packet: &SlabBuf| classifier.recognise(packet.bytes(), &mut { Lengths::NONE }).unwrap();
        let gradients: Vec<_> = packets.iter().map(recognised).collect();
        let (session, sink) = (&mut self.session, &mut self.sink);
        let (added, completed) = (sink.added, sink.completed);
        with(&mut || {
            let (mut packets, mut gradients) = (packets.drain(..), gradients.iter());
            while packets.len() > 0 {
                let mut burst = Burst::new();
                let next = |_: &SlabBuf| gradients.next().map(|one| (&one.flow.terms, one.gradient()));
                session.gather(&mut burst, packets.by_ref().take(BURST), next, drop);
                session.add_burst(&mut burst, 1, sink);
            }
        });
        assert_eq!(sink.added - added + (sink.completed - completed) as usize, count as usize);
    }
}

fn quietly(act: &mut dyn FnMut()) {
    act();
}

fn counting(act: &mut dyn FnMut()) {
    counted(act);
}

/// Adding a contribution that is expected.
pub(super) fn add() -> u32 {
    let mut traffic = Traffic::new(Order::Arrival);
    traffic.offer(PSNS, quietly);
    let adds = PSNS * u32::from(FAN_IN - 2);
    traffic.add(adds, counting);
    adds
}

/// The last contribution to a PSN.
pub(super) fn complete() -> u32 {
    let mut traffic = Traffic::new(Order::Arrival);
    traffic.offer(PSNS, quietly);
    traffic.add(PSNS * u32::from(FAN_IN - 2), quietly);
    traffic.add(PSNS, counting);
    assert_eq!((traffic.sink.opened, traffic.sink.completed), (PSNS, PSNS));
    PSNS
}

/// A contribution in the order of ranks: kept, and with the last one all are added.
pub(super) fn rank_order() -> u32 {
    let mut traffic = Traffic::new(Order::Rank);
    let all = PSNS * u32::from(FAN_IN);
    traffic.offer(all, counting);
    assert_eq!((traffic.sink.completed, traffic.sink.spent.len()), (PSNS, (all - PSNS) as usize));
    all
}
