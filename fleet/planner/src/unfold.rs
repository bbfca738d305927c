//! The unfolded network: up, then down, by shortest ways (ARO, section III.A and Figure 4).

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::model::{Aggregates, Channel, End, Network, Task};

/// How many links each switch is from `target` by ways that go up and then down; none if there is none.
///
/// A switch from which `target` is straight below is on its way down. Every other one goes up, to the
/// neighbour that is nearest. So each switch has one direction, and the ways form a graph without cycles.
pub(crate) fn distances(network: &Network, target: usize) -> Vec<Option<u32>> {
    let mut distance: Vec<Option<u32>> = vec![None; network.switches.len()];
    distance[target] = Some(0);
    let mut links: Vec<(usize, usize)> = network.links.iter().map(|link| (link.lower, link.upper)).collect();
    let tier = |&(lower, _): &(usize, usize)| network.switches[lower].tier;
    links.sort_by_key(tier);
    let nearer = |distance: &mut [Option<u32>], from: usize, to: usize| {
        if let Some(hops) = distance[from]
            && distance[to].is_none_or(|now| now > hops + 1)
        {
            distance[to] = Some(hops + 1);
        }
    };
    // Upwards from the target: those that have it straight below.
    links.iter().for_each(|&(lower, upper)| nearer(&mut distance, lower, upper));
    let below: Vec<bool> = distance.iter().map(Option::is_some).collect();
    // Downwards again: all others, through a switch above.
    for &(lower, upper) in links.iter().rev().filter(|(lower, _)| !below[*lower]) {
        nearer(&mut distance, upper, lower);
    }
    distance
}

/// A place in the unfolded network of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A switch that forwards: all of it.
    Whole(usize),
    /// An input pipeline of a switch that adds.
    Input(usize, u16),
    /// The outputs of a switch that adds, or has an appliance beside it.
    Output(usize),
    /// A switch with an appliance beside it, before the appliance.
    Before(usize),
    /// The appliance.
    Appliance(usize),
    /// The parameter server.
    Server,
}

/// A way from one place to the next, and the channel that it takes, if it leaves the switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) channel: Option<Channel>,
}

/// All shortest ways of one task, from the places where workers' flows arrive to the parameter server.
pub(crate) struct Unfolded {
    pub(crate) places: Vec<Place>,
    /// How many workers' flows enter at each place.
    pub(crate) supply: Vec<u32>,
    pub(crate) edges: Vec<Edge>,
}

impl Unfolded {
    /// Unfolds the network for a task whose workers all have a way.
    pub(crate) fn new(network: &Network, task: &Task) -> Self {
        let target = network.servers[task.server].switch;
        let distance = distances(network, target);
        let mut onward: Vec<Vec<usize>> = vec![Vec::new(); network.switches.len()];
        let hops = |switch: usize| distance[switch].unwrap_or(u32::MAX);
        for (at, link) in network.links.iter().enumerate() {
            let (low, high) = (hops(link.lower), hops(link.upper));
            if low != u32::MAX && high != u32::MAX {
                match low.cmp(&high) {
                    Ordering::Greater if low == high + 1 => onward[link.lower].push(network.up(at)),
                    Ordering::Less if high == low + 1 && straight(network, &distance, link.upper, target) => {
                        onward[link.upper].push(network.down(at));
                    }
                    _ => {}
                }
            }
        }
        let mut builder = Builder { network, known: HashMap::new(), made: Self::empty() };
        let mut waiting = Vec::new();
        for &worker in &task.workers {
            let place = builder.arrive(&mut waiting, network.from_server(worker));
            builder.made.supply[place] += 1;
        }
        while let Some(switch) = waiting.pop() {
            let out = builder.output(switch);
            if switch == target {
                let to = builder.place(Place::Server);
                builder.edge(out, to, Some(network.to_server(task.server)));
                continue;
            }
            for &channel in &onward[switch] {
                let to = builder.arrive(&mut waiting, channel);
                builder.edge(out, to, Some(channel));
            }
        }
        builder.made
    }

    fn empty() -> Self {
        Self { places: Vec::new(), supply: Vec::new(), edges: Vec::new() }
    }

    /// Whether flows that enter a place leave it as one.
    pub(crate) fn adds(&self, place: usize) -> bool {
        matches!(self.places[place], Place::Input(..) | Place::Appliance(_))
    }

    /// The largest number of flows that can take each edge in any plan.
    pub(crate) fn most(&self) -> Vec<u32> {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.places.len()];
        self.edges.iter().enumerate().for_each(|(at, edge)| into[edge.to].push(at));
        let all: u32 = self.supply.iter().sum();
        let mut most: Vec<Option<u32>> = vec![None; self.places.len()];
        fn of(
            unfolded: &Unfolded,
            into: &[Vec<usize>],
            most: &mut Vec<Option<u32>>,
            place: usize,
            all: u32,
        ) -> u32 {
            if let Some(known) = most[place] {
                return known;
            }
            let arriving =
                into[place].iter().map(|&at| of(unfolded, into, most, unfolded.edges[at].from, all));
            let sum = arriving.fold(unfolded.supply[place], u32::saturating_add).min(all);
            let number = if unfolded.adds(place) { sum.min(1) } else { sum };
            most[place] = Some(number);
            number
        }
        self.edges.iter().map(|edge| of(self, &into, &mut most, edge.from, all)).collect()
    }
}

/// Whether the target lies straight below a switch: then the tiers between them are all its distance.
fn straight(network: &Network, distance: &[Option<u32>], switch: usize, target: usize) -> bool {
    let (high, low) = (network.switches[switch].tier, network.switches[target].tier);
    high.checked_sub(low).is_some_and(|tiers| distance[switch] == Some(u32::from(tiers)))
}

struct Builder<'a> {
    network: &'a Network,
    known: HashMap<Place, usize>,
    made: Unfolded,
}

impl Builder<'_> {
    fn place(&mut self, place: Place) -> usize {
        let made = &mut self.made;
        *self.known.entry(place).or_insert_with(|| {
            made.places.push(place);
            made.supply.push(0);
            made.places.len() - 1
        })
    }

    fn edge(&mut self, from: usize, to: usize, channel: Option<Channel>) {
        self.made.edges.push(Edge { from, to, channel });
    }

    fn output(&mut self, switch: usize) -> usize {
        self.place(match self.network.switches[switch].aggregates {
            Aggregates::No => Place::Whole(switch),
            _ => Place::Output(switch),
        })
    }

    /// The place where a channel arrives. A new switch is queued for its further ways.
    fn arrive(&mut self, waiting: &mut Vec<usize>, channel: Channel) -> usize {
        let End::Switch { switch, pipeline } = self.network.ends(channel).1 else { return 0 };
        let before = self.made.places.len();
        let out = self.output(switch);
        if out == before {
            waiting.push(switch);
        }
        match self.network.switches[switch].aggregates {
            Aggregates::No => out,
            Aggregates::Inside { .. } => {
                let (before, input) = (self.made.places.len(), self.place(Place::Input(switch, pipeline)));
                if input == before {
                    self.edge(input, out, None);
                }
                input
            }
            Aggregates::Beside { .. } => {
                let (known, entry) = (self.made.places.len(), self.place(Place::Before(switch)));
                if entry == known {
                    let appliance = self.place(Place::Appliance(switch));
                    self.edge(entry, out, None);
                    self.edge(entry, appliance, Some(self.network.to_appliance(switch)));
                    self.edge(appliance, out, Some(self.network.from_appliance(switch)));
                }
                entry
            }
        }
    }
}
