//! Is this rate possible? Exact for one task, except for aggregating spines of different port maps that have
//! more pipelines than the link behind them carries flows.

use std::time::Instant;

use super::max_flow::MaxFlow;
use super::sets::{self, Chosen};
use super::several;
use super::view::{Caps, View};
use crate::model::{Channel, Flows};
use crate::place::choices;
use crate::plan::Binding;

/// Up to this many sets of pipelines of the parameter server's leaf are all tried; of more, a few.
const MOST_SETS: u64 = 5_000;
const FEW_SETS: usize = 64;

/// An answer.
pub(crate) enum Verdict {
    /// Possible, with these flows, for each task.
    Yes(Vec<Flows>),
    /// Impossible, for this reason.
    No(Binding),
    /// Not decided here.
    Unknown,
}

/// Decides one rate, as far as the time until `deadline` lasts.
pub(crate) fn decide(view: &View<'_>, caps: &Caps, deadline: Instant) -> Verdict {
    if let Some(slow) = view.slow_worker(caps.rate) {
        return Verdict::No(slow);
    }
    if view.demands.len() == 1 { one(view, caps, 0, deadline) } else { several::decide(view, caps, deadline) }
}

/// Sets of pipelines of a parameter server's leaf that may be used, as masks.
pub(super) struct Admitted {
    pub(super) masks: Vec<u64>,
    /// There are more than these.
    more: bool,
}

/// All sets of pipelines whose flows the parameter server's link can carry beside the local ones, or a few of
/// them.
pub(super) fn admitted(view: &View<'_>, caps: &Caps, task: usize) -> Result<Admitted, Binding> {
    let demand = &view.demands[task];
    let (local, most) = (demand.local.count_ones(), caps.server[task]);
    let server = view.instance.tasks[task].server;
    let channels = vec![view.instance.network.to_server(server)];
    if local > most {
        let why = format!(
            "the parameter server's own leaf has workers in {local} pipelines, each a flow of its own, and \
             the server's link carries {most} flows of {:.3} Gbit/s",
            caps.rate
        );
        return Err(Binding { kind: "local_pipes", why, channels });
    }
    let reach = |spine: &usize| view.link(demand.leaf, *spine).is_some() && caps.down(task, *spine) > 0;
    let used = (0..view.spines.len())
        .filter(reach)
        .fold(0, |used, spine| used | 1u64 << view.arrives(demand.leaf, spine));
    if (used | demand.local).count_ones() <= most || demand.total == 0 {
        return Ok(Admitted { masks: vec![used], more: false });
    }
    let free = used & !demand.local;
    let more = choices(free.count_ones() as usize, (most - local) as usize) > MOST_SETS;
    let mut masks = Vec::new();
    subsets(free, most - local, used & demand.local, if more { FEW_SETS } else { usize::MAX }, &mut masks);
    if masks == [0] {
        let why = format!(
            "{local} pipelines of the parameter server's leaf carry its own workers, the server's link \
             carries {most} flows of {:.3} Gbit/s, and no spine reaches those pipelines",
            caps.rate
        );
        return Err(Binding { kind: "capacity", why, channels });
    }
    Ok(Admitted { masks, more })
}

/// The first `most` ways to take `count` bits of `from`, together with `fixed`.
fn subsets(from: u64, count: u32, fixed: u64, most: usize, into: &mut Vec<u64>) {
    if into.len() >= most {
        return;
    }
    if count == 0 || from == 0 {
        into.push(fixed);
        return;
    }
    if from.count_ones() <= count {
        into.push(fixed | from);
        return;
    }
    let lowest = from & from.wrapping_neg();
    subsets(from & !lowest, count - 1, fixed | lowest, most, into);
    subsets(from & !lowest, count, fixed, most, into);
}

/// One task, as if it were alone.
pub(super) fn one(view: &View<'_>, caps: &Caps, task: usize, deadline: Instant) -> Verdict {
    let Admitted { masks, more } = match admitted(view, caps, task) {
        Ok(admitted) => admitted,
        Err(binding) => return Verdict::No(binding),
    };
    let (mut unknown, mut reason) = (more, None);
    for (tried, mask) in masks.into_iter().enumerate() {
        // One is tried in any case: a slow rate is better than none.
        if tried > 0 && Instant::now() >= deadline {
            return Verdict::Unknown;
        }
        match within(view, caps, task, mask) {
            Verdict::Unknown => unknown = true,
            Verdict::No(binding) => reason = reason.or(Some(binding)),
            yes @ Verdict::Yes(_) => return yes,
        }
    }
    if unknown { Verdict::Unknown } else { Verdict::No(reason.unwrap_or_default()) }
}

/// The same, with given pipelines of the parameter server's leaf.
fn within(view: &View<'_>, caps: &Caps, task: usize, mask: u64) -> Verdict {
    let (adding, plain) = usable(view, caps, task, mask);
    let everything = Chosen::everything(&adding);
    let Some(flows) = assign(view, caps, task, &everything, &plain) else {
        return Verdict::No(short(view, caps, task, (&adding, &plain)));
    };
    if adding.iter().all(|&spine| sets::classes(view, task, spine).count_ones() <= caps.down(task, spine)) {
        return Verdict::Yes(vec![flows]);
    }
    let (chosen, exact) = sets::choose(view, caps, task, &adding);
    match assign(view, caps, task, &chosen, &plain) {
        Some(flows) => Verdict::Yes(vec![flows]),
        None if exact => {
            let why = format!(
                "the spines that add take flows of {:.3} Gbit/s from as many pipelines as the link behind \
                 them carries flows, and the other spines do not carry the rest",
                caps.rate
            );
            let channels = channels_down(view, task, &adding);
            Verdict::No(Binding { kind: "capacity", why, channels })
        }
        None => Verdict::Unknown,
    }
}

/// The spines whose flows arrive in these pipelines of the parameter server's leaf: adding and other ones.
pub(crate) fn usable(view: &View<'_>, caps: &Caps, task: usize, mask: u64) -> (Vec<usize>, Vec<usize>) {
    let leaf = view.demands[task].leaf;
    let open = |&spine: &usize| caps.down(task, spine) > 0 && mask >> view.arrives(leaf, spine) & 1 == 1;
    (0..view.spines.len()).filter(open).partition(|&spine| view.adds(spine))
}

/// Sends each leaf's flows to adding spines first, as many as their links carry into chosen pipelines, and
/// the rest over the plain ones. None if that is not possible.
pub(crate) fn assign(
    view: &View<'_>,
    caps: &Caps,
    task: usize,
    chosen: &Chosen,
    plain: &[usize],
) -> Option<Flows> {
    let network = &view.instance.network;
    let demand = &view.demands[task];
    let mut flows = Vec::new();
    let mut into = vec![0u32; view.spines.len()];
    let mut left = demand.flows.clone();
    let mut send = |leaf: usize, spine: usize, number: u32| {
        if let (Some((link, _)), true) = (view.link(leaf, spine), number > 0) {
            flows.push((network.up(link), number));
            into[spine] += number;
        }
    };
    for (leaf, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
        for (spine, _) in chosen.spines().filter(|&(spine, mask)| mask >> view.enters(leaf, spine) & 1 == 1) {
            let number = caps.up(leaf, spine).min(*left);
            send(leaf, spine, number);
            *left -= number;
        }
    }
    transport(caps, task, &left, plain)?
        .into_iter()
        .for_each(|(leaf, spine, number)| send(leaf, spine, number));
    for (spine, &number) in into.iter().enumerate().filter(|(_, number)| **number > 0) {
        let (link, _) = view.link(demand.leaf, spine)?;
        flows.push((network.down(link), number));
    }
    Some(flows)
}

/// Whole flows from leaves over plain spines, or none if the links do not carry them.
fn transport(caps: &Caps, task: usize, left: &[u32], plain: &[usize]) -> Option<Vec<(usize, usize, u32)>> {
    let total: u32 = left.iter().sum();
    let room = plain.iter().map(|&spine| u64::from(caps.down(task, spine))).sum::<u64>();
    if u64::from(total) > room {
        return None;
    }
    let mut sent = Vec::new();
    let mut down: Vec<u32> = plain.iter().map(|&spine| caps.down(task, spine)).collect();
    let mut over = 0;
    for (leaf, &left) in left.iter().enumerate().filter(|(_, left)| **left > 0) {
        let mut left = left;
        for (&spine, down) in plain.iter().zip(&mut down) {
            let number = left.min(*down).min(caps.up(leaf, spine));
            if number > 0 {
                sent.push((leaf, spine, number));
                *down -= number;
                left -= number;
            }
        }
        over += left;
    }
    if over == 0 { Some(sent) } else { by_max_flow(caps, task, left, plain) }
}

fn by_max_flow(caps: &Caps, task: usize, left: &[u32], plain: &[usize]) -> Option<Vec<(usize, usize, u32)>> {
    let (source, sink) = (left.len() + plain.len(), left.len() + plain.len() + 1);
    let mut network = MaxFlow::new(sink + 1);
    let mut arcs = Vec::new();
    for (leaf, &number) in left.iter().enumerate().filter(|(_, number)| **number > 0) {
        network.arc(source, leaf, number);
        for (at, &spine) in plain.iter().enumerate().filter(|(_, spine)| caps.up(leaf, **spine) > 0) {
            arcs.push((leaf, spine, network.arc(leaf, left.len() + at, caps.up(leaf, spine))));
        }
    }
    for (at, &spine) in plain.iter().enumerate() {
        network.arc(left.len() + at, sink, caps.down(task, spine));
    }
    (network.run(source, sink) == left.iter().sum::<u32>()).then(|| {
        let flows = arcs.into_iter().map(|(leaf, spine, arc)| (leaf, spine, network.flow(arc)));
        flows.filter(|&(_, _, number)| number > 0).collect()
    })
}

/// Why the links do not suffice, whatever the pipelines of spines.
fn short(view: &View<'_>, caps: &Caps, task: usize, (adding, plain): (&[usize], &[usize])) -> Binding {
    let demand = &view.demands[task];
    let (mut excess, mut leaves) = (0u64, Vec::new());
    for (leaf, &flows) in demand.flows.iter().enumerate() {
        let absorbed: u64 = adding.iter().map(|&spine| u64::from(caps.up(leaf, spine))).sum();
        if let Some(over) = u64::from(flows).checked_sub(absorbed).filter(|&over| over > 0) {
            excess += over;
            leaves.push(leaf);
        }
    }
    let room = plain.iter().map(|&spine| u64::from(caps.down(task, spine))).sum::<u64>();
    let why = format!(
        "at {:.3} Gbit/s {} leaves have {excess} flows more than the links to the {} adding spines carry, \
         and the {} other spines carry {room} flows to the parameter server's leaf",
        caps.rate,
        leaves.len(),
        adding.len(),
        plain.len()
    );
    let mut channels = channels_down(view, task, plain);
    let network = &view.instance.network;
    let ups = leaves.iter().flat_map(|&leaf| adding.iter().map(move |&spine| (leaf, spine)));
    channels.extend(ups.filter_map(|(leaf, spine)| Some(network.up(view.link(leaf, spine)?.0))));
    Binding { kind: "capacity", why, channels }
}

fn channels_down(view: &View<'_>, task: usize, spines: &[usize]) -> Vec<Channel> {
    let leaf = view.demands[task].leaf;
    let link = |&spine: &usize| Some(view.instance.network.down(view.link(leaf, spine)?.0));
    spines.iter().filter_map(link).collect()
}
