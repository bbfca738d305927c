//! Whole turns of an lcore: packets from reception to recycling, and their share of the results.

use pascaline_pipelines::{BURST, Io as _};
use pascaline_testkit::{Clock, JOB, Worker};
use pascaline_wire::control::Action;
use pascaline_wire::{DType, Element, Op};

use super::common::appliance::{Appliance, Plan, job};
use super::slab::{Slab, SlabIo};
use super::{ELEMENTS, FAN_IN, PSNS, counted, worker};

/// Full bursts in a row after which an lcore counts as overloaded, and some more.
const SUSTAINED: u32 = 300;
/// Jobs that take turns PSN by PSN: before one has its turn again, the packets of the others have filled a
/// first-level cache.
const JOBS: u16 = 16;
/// Their slots: few enough for each to have held a result before.
const SLOTS: usize = 64;

/// One job of eight ranks.
pub(super) fn plain() -> u32 {
    let mut bed = Bed::new(1);
    bed.offer(Element::I32_SUM, PSNS);
    bed.count(true)
}

/// The same with elements of 16 bits, as many as fill the payload, which are kept until all ranks' are there.
pub(super) fn kept() -> u32 {
    let mut bed = Bed::new(1);
    bed.offer(Element { dtype: DType::F16, op: Op::Sum }, PSNS);
    bed.count(true)
}

/// One job again, of an lcore whose bursts have been full for so long that it counts as overloaded.
pub(super) fn full() -> u32 {
    let mut bed = Bed::new(1);
    for _ in 0..SUSTAINED.div_ceil(bed.turns(PSNS)) {
        bed.offer(Element::I32_SUM, PSNS);
        bed.work();
    }
    bed.offer(Element::I32_SUM, PSNS);
    bed.count(false)
}

/// Many jobs that take turns PSN by PSN.
pub(super) fn jobs() -> u32 {
    let mut bed = Bed::new(JOBS);
    // Each slot has held something before.
    for psns in [2, 2, 4] {
        bed.offer(Element::I32_SUM, psns);
        bed.work();
    }
    bed.offer(Element::I32_SUM, 4);
    bed.count(false)
}

/// An idle turn while there are as many partials as ranks usually have under way.
pub(super) fn idle() -> u32 {
    const TIMES: u32 = 64;
    let mut bed = Bed::new(1);
    bed.offer_of(Element::I32_SUM, PSNS / 2, FAN_IN - 1);
    while bed.appliance.lcores[0].turn() > 0 {}
    let lcore = &mut bed.appliance.lcores[0];
    assert!(lcore.packets_held() >= (PSNS / 4) as usize);
    counted(|| {
        for _ in 0..TIMES {
            lcore.turn();
        }
    });
    TIMES
}

/// An lcore, and jobs whose ranks have all joined.
struct Bed {
    slab: &'static Slab,
    appliance: Appliance<SlabIo>,
    jobs: u16,
    epoch: u16,
    /// The next PSN of each job.
    next: u32,
    /// Packets that wait to be received.
    waiting: u32,
}

impl Bed {
    fn new(jobs: u16) -> Self {
        let clock = Clock::default();
        clock.advance(1 << 40);
        let slab = Slab::new(if jobs > 1 { 1 << 13 } else { 4096 });
        let specs = (0..jobs).map(|number| job(JOB + number, FAN_IN)).collect();
        let mut plan = Plan { jobs: specs, ..Plan::one_armed() };
        if jobs > 1 {
            plan.pool.slots = SLOTS;
        }
        let mut appliance = Appliance::new(&plan, vec![SlabIo::new(slab, &clock)]);
        for number in 0..jobs {
            for rank in 0..FAN_IN {
                let join = Worker { job: JOB + number, ..worker(rank) }.control(Action::Join);
                appliance.lcores[0].io().rx.push_back(slab.take(&join).unwrap());
                appliance.lcores[0].turn();
                appliance.control();
            }
        }
        let epoch = appliance.plane.membership().status()[0].epoch;
        appliance.lcores[0].turn();
        appliance.lcores[0].io().tx.clear();
        Self { slab, appliance, jobs, epoch, next: 0, waiting: 0 }
    }

    /// Full bursts of so many PSNs.
    fn turns(&self, psns: u32) -> u32 {
        psns * u32::from(FAN_IN) * u32::from(self.jobs) / u32::try_from(BURST).unwrap()
    }

    /// Has all ranks of all jobs send the next PSNs, job by job.
    fn offer(&mut self, element: Element, psns: u32) {
        self.offer_of(element, psns, FAN_IN);
    }

    /// The same of the first ranks.
    fn offer_of(&mut self, element: Element, psns: u32, ranks: u16) {
        for psn in self.next..self.next + psns {
            for number in 0..self.jobs {
                for rank in 0..ranks {
                    let (job, epoch) = (JOB + number, self.epoch);
                    let sender = Worker { job, epoch, element, ..worker(rank) };
                    let frame = sender.gradient(psn, &[1; ELEMENTS]);
                    self.appliance.lcores[0].io().rx.push_back(self.slab.take(&frame).unwrap());
                }
            }
        }
        self.next += psns;
        self.waiting = psns * u32::from(FAN_IN) * u32::from(self.jobs);
    }

    /// Turns with full bursts, until nothing is left.
    fn work(&mut self) {
        for _ in 0..self.waiting / u32::try_from(BURST).unwrap() {
            assert_eq!(self.appliance.lcores[0].turn(), BURST);
        }
        self.check();
    }

    /// The same, counted, with an empty turn behind it if that is wanted. Packets that have come.
    fn count(mut self, to_the_end: bool) -> u32 {
        let (lcore, turns) = (&mut self.appliance.lcores[0], self.waiting / u32::try_from(BURST).unwrap());
        counted(|| {
            for _ in 0..turns {
                lcore.turn();
            }
            if to_the_end {
                lcore.turn();
            }
        });
        self.check();
        self.waiting
    }

    /// Each packet has led to one: each rank got each result.
    fn check(&mut self) {
        let io = self.appliance.lcores[0].io();
        assert_eq!(io.tx.len(), self.waiting as usize);
        assert!(io.multi_segment(0) && io.rx.is_empty());
        io.tx.clear();
    }
}
