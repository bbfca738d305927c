//! Which input pipelines of the adding spines are used, when the link behind a spine carries fewer flows than
//! the spine has pipelines.

use std::cmp::Reverse;

use super::view::{Caps, View};

/// For each adding spine the pipelines that flows may enter, as a mask.
pub(crate) struct Chosen(Vec<(usize, u64)>);

impl Chosen {
    pub(crate) fn everything(spines: &[usize]) -> Self {
        Self(spines.iter().map(|&spine| (spine, u64::MAX)).collect())
    }

    pub(crate) fn of(spines: Vec<(usize, u64)>) -> Self {
        Self(spines)
    }

    pub(crate) fn spines(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied()
    }
}

/// The pipelines of a spine that leaves with flows enter, as a mask.
pub(crate) fn classes(view: &View<'_>, task: usize, spine: usize) -> u64 {
    let flows = &view.demands[task].flows;
    let leaves = (0..flows.len()).filter(|&leaf| flows[leaf] > 0 && view.link(leaf, spine).is_some());
    leaves.fold(0, |mask, leaf| mask | 1u64 << view.enters(leaf, spine))
}

/// Chooses pipelines so that few flows are left for other spines. Returns true with it if no choice leaves
/// fewer.
pub(crate) fn choose(view: &View<'_>, caps: &Caps, task: usize, adding: &[usize]) -> (Chosen, bool) {
    if alike(view, caps, task, adding) {
        (by_class(view, caps, task, adding), true)
    } else {
        (by_ascent(view, caps, task, adding), false)
    }
}

/// Whether the spines are equal in port maps, links up and links down.
fn alike(view: &View<'_>, caps: &Caps, task: usize, adding: &[usize]) -> bool {
    let Some((&first, rest)) = adding.split_first() else { return true };
    let flows = &view.demands[task].flows;
    rest.iter().all(|&spine| {
        caps.down(task, spine) == caps.down(task, first)
            && (0..flows.len()).filter(|&leaf| flows[leaf] > 0).all(|leaf| {
                caps.up(leaf, spine) == caps.up(leaf, first)
                    && view.enters(leaf, spine) == view.enters(leaf, first)
            })
    })
}

/// Equal spines: the rest is a sum over the classes of leaves that share a pipeline, convex in the number of
/// spines that admit the class. So the class that gains most is taken, spine by spine.
fn by_class(view: &View<'_>, caps: &Caps, task: usize, adding: &[usize]) -> Chosen {
    let (count, first) = (adding.len(), adding[0]);
    let flows = &view.demands[task].flows;
    let each = caps.down(task, first) as usize;
    let mut members: Vec<Vec<(u32, u32)>> = vec![Vec::new(); 64];
    for (leaf, &flows) in flows.iter().enumerate().filter(|(_, flows)| **flows > 0) {
        members[usize::from(view.enters(leaf, first))].push((flows, caps.up(leaf, first)));
    }
    let gain = |members: &[(u32, u32)], spines: usize| -> u64 {
        let spines = u32::try_from(spines).unwrap_or(u32::MAX);
        members.iter().map(|&(m, up)| u64::from(m.saturating_sub(up.saturating_mul(spines)).min(up))).sum()
    };
    let mut taken = vec![0usize; 64];
    let mut gains: Vec<u64> = members.iter().map(|members| gain(members, 0)).collect();
    for _ in 0..each * count {
        // Classes without gain are taken as well: other tasks may need the room elsewhere.
        let open = (0..64).filter(|&class| taken[class] < count && !members[class].is_empty());
        let Some(best) = open.max_by_key(|&class| (gains[class], Reverse(taken[class]))) else { break };
        taken[best] += 1;
        gains[best] = gain(&members[best], taken[best]);
    }
    // One class after the other, spine after spine: no spine gets a class twice, and none more than `each`.
    let mut masks = vec![0u64; count];
    let units = taken.iter().enumerate().flat_map(|(class, &taken)| std::iter::repeat_n(class, taken));
    units.enumerate().for_each(|(unit, class)| masks[unit % count] |= 1 << class);
    Chosen(adding.iter().copied().zip(masks).collect())
}

/// Spines that differ: each in turn takes the classes with the largest gain beside the others, until there is
/// no improvement.
fn by_ascent(view: &View<'_>, caps: &Caps, task: usize, adding: &[usize]) -> Chosen {
    let flows = &view.demands[task].flows;
    let mut masks = vec![0u64; adding.len()];
    // Flows that the chosen pipelines of all spines take from each leaf; may exceed the leaf's flows.
    let mut covered = vec![0u32; flows.len()];
    for round in 0..16 {
        let mut changed = false;
        for (at, &spine) in adding.iter().enumerate() {
            let mut gains = [0u64; 64];
            for (leaf, &flows) in flows.iter().enumerate().filter(|(_, flows)| **flows > 0) {
                let (class, up) = (view.enters(leaf, spine), caps.up(leaf, spine));
                if masks[at] >> class & 1 == 1 {
                    covered[leaf] -= up;
                }
                gains[usize::from(class)] += u64::from(up.min(flows.saturating_sub(covered[leaf])));
            }
            let classes = classes(view, task, spine);
            let mut order: Vec<u16> = (0..64).filter(|class| classes >> class & 1 == 1).collect();
            // Ties go to different classes in different rounds.
            order.sort_by_key(|&class| (Reverse(gains[usize::from(class)]), (class + round) % 64));
            order.truncate(caps.down(task, spine) as usize);
            let mask = order.iter().fold(0, |mask, class| mask | 1u64 << class);
            for (leaf, covered) in covered.iter_mut().enumerate().filter(|(leaf, _)| flows[*leaf] > 0) {
                if mask >> view.enters(leaf, spine) & 1 == 1 {
                    *covered += caps.up(leaf, spine);
                }
            }
            changed |= std::mem::replace(&mut masks[at], mask) != mask;
        }
        if !changed {
            break;
        }
    }
    Chosen(adding.iter().copied().zip(masks).collect())
}
