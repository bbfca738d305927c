//! Updates through the queue, in constraints: independent of the queue's code.
//!
//! Updates leave in the order in which they were appended, one `service` after the other, so each appended
//! update's `start` follows from those before it. An update waits until its start. One that arrives earlier
//! in its cluster is merged into it.

use super::term::{Cond, Num, Smt};
use crate::error::VerifyError;
use crate::exact::{rng, toss};
use crate::scenario::{Cluster, Coins, Control, Exact, Place, Scenario};

/// One update that may be sent.
pub(super) struct Update {
    pub(super) cluster: usize,
    /// Its number in its cluster.
    pub(super) index: usize,
    pub(super) place: Place,
    /// When it is generated.
    pub(super) at: Num,
    /// It is sent, within the horizon.
    pub(super) sent: Cond,
    /// It goes to the tail.
    pub(super) appended: Cond,
    /// It is combined with the waiting one, or replaces it.
    pub(super) merged: Cond,
    /// When its sending begins, if it is appended.
    pub(super) start: Num,
    /// When the sending of its cluster's last appended one begins, itself included, if there is one.
    pub(super) current: Num,
}

/// The state of a cluster's updates so far.
#[derive(Clone)]
struct Past {
    /// One of them was appended.
    any: Cond,
    /// When the sending of the last one appended begins.
    start: Num,
}

pub(super) struct Flow<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) updates: Vec<Update>,
    /// Each cluster's updates, in order.
    pub(super) of: Vec<Vec<usize>>,
    past: Vec<Past>,
    service: Num,
    horizon: Num,
    /// The longest wait for the line.
    longest: Exact,
    /// Every cluster has its place, and the one that is leaving too.
    never_full: bool,
    /// Coins that the solver tosses: cluster, update, name.
    pub(super) coins: Vec<(usize, usize, String)>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        smt: &mut Smt,
        times: &[(Num, Num)],
    ) -> Result<Self, VerifyError> {
        let mut updates = Vec::new();
        for (cluster, ((phase, period), said)) in times.iter().zip(&scenario.clusters).enumerate() {
            for (index, place) in said.places(&scenario.horizon).into_iter().enumerate() {
                let offset = smt.scale(period, &place.factor());
                let at = smt.add(phase, &offset);
                let open = Cond::Is(false);
                updates.push(Update {
                    cluster,
                    index,
                    place,
                    start: at.clone(),
                    current: at.clone(),
                    at,
                    sent: open.clone(),
                    appended: open.clone(),
                    merged: open,
                });
            }
        }
        updates.sort_by(|a, b| (&a.at.low, a.cluster, a.index).cmp(&(&b.at.low, b.cluster, b.index)));
        let clusters = scenario.clusters.len();
        let mut of = vec![Vec::new(); clusters];
        for (at, update) in updates.iter().enumerate() {
            of[update.cluster].push(at);
        }
        let olaf = scenario.queue.merges();
        let length = usize::from(scenario.queue.length);
        let ahead = if olaf { length.min(clusters) } else { length };
        let mut flow = Self {
            scenario,
            updates,
            of,
            past: vec![Past { any: Cond::Is(false), start: Num::zero() }; clusters],
            service: Num::known(scenario.queue.service.clone()),
            horizon: Num::known(scenario.horizon.clone()),
            longest: &scenario.queue.service * Exact::from_integer(ahead.into()),
            never_full: olaf && length >= clusters + usize::from(scenario.queue.held),
            coins: Vec::new(),
        };
        flow.constrain(smt)?;
        Ok(flow)
    }

    fn constrain(&mut self, smt: &mut Smt) -> Result<(), VerifyError> {
        let unordered = |at| smt.check().map(|()| self.is_unordered(at));
        let open = (0..self.updates.len()).map(unordered).collect::<Result<Vec<bool>, _>>()?;
        // Those that others may precede, or not, are named first.
        for (at, _) in open.iter().enumerate().filter(|(_, open)| **open) {
            let high = &self.updates[at].at.high + &self.longest;
            let low = self.updates[at].at.low.clone();
            self.updates[at].appended =
                if self.is_certain(at) { Cond::Is(true) } else { smt.choice(&format!("appended_{at}")) };
            self.updates[at].start = smt.unknown(&format!("start_{at}"), low, high);
        }
        for (at, open) in open.into_iter().enumerate() {
            smt.check()?;
            self.define(smt, at, open);
        }
        Ok(())
    }

    /// True if an update of another cluster may come before or after it.
    fn is_unordered(&self, at: usize) -> bool {
        self.updates.iter().any(|other| {
            let update = &self.updates[at];
            let apart = other.at.high < update.at.low || other.at.low > update.at.high;
            let known = other.at.is_known() && update.at.is_known();
            other.cluster != update.cluster && !apart && !known
        })
    }

    /// True if an update is appended in any case.
    fn is_certain(&self, at: usize) -> bool {
        let update = &self.updates[at];
        let free = self.scenario.tosses(self.cluster_of(update.cluster)).is_none();
        let alone =
            update.index == 0 || self.gap(self.of[update.cluster][update.index - 1], at) >= self.longest;
        self.never_full && free && alone && update.at.high <= self.horizon.low
    }

    /// The least time from another update of its cluster to an update, which the bounds of times do not
    /// contain.
    fn gap(&self, first: usize, second: usize) -> Exact {
        let (a, b) = (&self.updates[first], &self.updates[second]);
        &self.cluster_of(a.cluster).period.low * (b.place.factor() - a.place.factor())
    }

    /// Whether one arrives before another.
    fn before(&self, smt: &mut Smt, first: usize, second: usize) -> Cond {
        let (a, b) = (&self.updates[first], &self.updates[second]);
        if a.cluster == b.cluster {
            return Cond::Is(a.index < b.index);
        }
        if a.at.is_known() && b.at.is_known() {
            return Cond::Is((&a.at.low, a.cluster) < (&b.at.low, b.cluster));
        }
        if a.cluster < b.cluster { smt.le(&a.at, &b.at) } else { smt.lt(&a.at, &b.at) }
    }

    fn define(&mut self, smt: &mut Smt, at: usize, named: bool) {
        let (cluster, time) = (self.updates[at].cluster, self.updates[at].at.clone());
        let present = smt.le(&time, &self.horizon);
        let permitted = self.permitted(smt, at);
        let sent = smt.all(vec![present, permitted]);
        let past = self.past[cluster].clone();
        let index = self.updates[at].index;
        let alone = index == 0 || self.gap(self.of[cluster][index - 1], at) >= self.longest;
        let waits = if alone { Cond::Is(false) } else { smt.lt(&time, &past.start) };
        let olaf = Cond::Is(self.scenario.queue.merges());
        let meets = smt.all(vec![olaf, past.any.clone(), waits]);
        let merged = smt.all(vec![sent.clone(), meets.clone()]);
        let mut inside = Vec::new();
        let mut start = time.clone();
        for other in 0..self.updates.len() {
            let them = &self.updates[other];
            let leaves = &them.start.high + &self.service.high;
            let own = them.cluster == cluster && other < at;
            if own && self.gap(other, at) >= self.longest_delay() {
                continue;
            }
            if other == at || !them.appended.may() || leaves <= time.low || them.at.low > time.high {
                continue;
            }
            let (appended, begins) = (them.appended.clone(), them.start.clone());
            let earlier = self.before(smt, other, at);
            let earlier = smt.all(vec![appended, earlier]);
            if !earlier.may() {
                continue;
            }
            let ends = smt.add(&begins, &self.service);
            let gone = if self.scenario.queue.held { ends.clone() } else { begins };
            let there = smt.lt(&time, &gone);
            inside.push(smt.all(vec![earlier.clone(), there]));
            let after = smt.max(&start, &ends);
            start = smt.ite(&earlier, &after, &start);
        }
        let room = if self.never_full {
            Cond::Is(true)
        } else {
            smt.fewer(&inside, usize::from(self.scenario.queue.length))
        };
        let fresh = smt.not(&meets);
        let appended = smt.all(vec![sent.clone(), fresh, room]);
        let most = &time.high + &self.longest;
        if start.high > most {
            start.high = most;
        }
        let update = &mut self.updates[at];
        (update.sent, update.merged) = (sent, merged);
        if named {
            smt.alike(&update.appended, &appended);
            smt.same_if(&update.appended, &update.start, &start);
        } else {
            (update.appended, update.start) = (appended, start);
        }
        let any = smt.any(vec![past.any, update.appended.clone()]);
        update.current = smt.ite(&update.appended, &update.start, &past.start);
        self.past[cluster] = Past { any, start: update.current.clone() };
    }

    /// Whether transmission control lets an update pass.
    fn permitted(&mut self, smt: &mut Smt, at: usize) -> Cond {
        let (cluster, index) = (self.updates[at].cluster, self.updates[at].index);
        let Some(control) = self.scenario.tosses(&self.scenario.clusters[cluster]) else {
            return Cond::Is(true);
        };
        let (heard, when) = self.heard(smt, at);
        let silent = smt.sub(&self.updates[at].at, &when);
        let share = self.scenario.share();
        let certain = Num::known(silence(control, &super::ends().1, &share));
        let certain = smt.le(&certain, &silent);
        let coin = match control.coins {
            Coins::Any => {
                let name = format!("coin_{cluster}_{index}");
                let coin = smt.choice(&name);
                self.coins.push((cluster, index, name));
                coin
            }
            Coins::Seed(seed) => {
                let mut rng = rng(seed, cluster);
                let uniform = (0..=index).map(|_| toss(&mut rng)).last().unwrap_or_else(|| super::ends().0);
                if uniform < share {
                    Cond::Is(true)
                } else {
                    let enough = Num::known(silence(control, &uniform, &share));
                    smt.lt(&enough, &silent)
                }
            }
        };
        let unheard = smt.not(&heard);
        smt.any(vec![unheard, certain, coin])
    }

    /// Whether the cluster has heard an Ack when an update is generated, and when it heard the last one.
    fn heard(&self, smt: &mut Smt, at: usize) -> (Cond, Num) {
        let update = &self.updates[at];
        let (mut heard, mut when) = (Cond::Is(false), Num::zero());
        for other in self.of[update.cluster].iter().take(update.index) {
            let them = &self.updates[*other];
            let arrives = smt.add(&them.start, &self.service);
            let ack = smt.add(&arrives, &Num::known(self.scenario.reply.clone()));
            let sure = self.gap(*other, at) >= self.longest_delay() + &self.scenario.reply;
            let in_time = if sure { Cond::Is(true) } else { smt.le(&ack, &update.at) };
            let comes = smt.all(vec![them.appended.clone(), in_time]);
            when = smt.ite(&comes, &ack, &when);
            heard = smt.any(vec![heard, comes]);
        }
        (heard, when)
    }

    /// The updates that reach the server as the newest inside an arriving one: whether and when.
    pub(super) fn deliveries(&self, smt: &mut Smt, cluster: usize) -> Result<Vec<(Cond, Num)>, VerifyError> {
        let of = &self.of[cluster];
        let mut deliveries = Vec::new();
        for (place, at) in of.iter().enumerate() {
            smt.check()?;
            let update = &self.updates[*at];
            let inside = smt.any(vec![update.appended.clone(), update.merged.clone()]);
            let mut condition = vec![inside];
            if self.scenario.queue.merges() {
                for later in &of[place + 1..] {
                    if self.gap(*at, *later) >= self.longest {
                        break;
                    }
                    let later = &self.updates[*later];
                    let early = smt.lt(&later.at, &update.current);
                    let joins = smt.all(vec![later.sent.clone(), early]);
                    condition.push(smt.not(&joins));
                }
            }
            let arrives = smt.add(&update.current, &self.service);
            condition.push(smt.le(&arrives, &self.horizon));
            deliveries.push((smt.all(condition), arrives));
        }
        Ok(deliveries)
    }

    /// The longest that an update takes to the server, if it gets there.
    pub(super) fn longest_delay(&self) -> Exact {
        &self.longest + &self.service.high
    }

    pub(super) fn cluster_of(&self, cluster: usize) -> &Cluster {
        &self.scenario.clusters[cluster]
    }
}

/// How long nothing must have been heard for a probability to be reached that is above the share.
fn silence(control: &Control, probability: &Exact, share: &Exact) -> Exact {
    &control.threshold + (probability - share) / &control.slope
}
