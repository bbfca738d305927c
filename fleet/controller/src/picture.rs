//! The network as a picture: switches, appliances, hosts, trees, loads, moves.

// Writing to a string cannot fail: its results are ignored below.
use core::fmt::Write as _;
use std::time::Duration;

use crate::core::{ApplianceView, Core, Health, JobView, LeadershipView, NodeView, View};
use crate::network::Network;

const WIDTH: f64 = 960.0;
const ROW: f64 = 130.0;
const TOP: f64 = 60.0;
const LINE: f64 = 16.0;
const MOVES_SHOWN: usize = 10;
/// One for each tree, in turn.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const STYLE: &str = "text{font:13px sans-serif;fill:#222}.dim{fill:#666;font-size:11px}.cable{stroke:#bbb}\
                     .switch{fill:#eee;stroke:#888}.up{fill:#d9f0d3;stroke:#1b7837}\
                     .down{fill:#f4a6a6;stroke:#b2182b}.unknown{fill:#fff;stroke:#888;stroke-dasharray:3}\
                     .spare{stroke-dasharray:6 3}\
                     .host{fill:#f7f7f7;stroke:#aaa}.tree{fill:none;stroke-width:3}";

/// The positions in the picture.
struct Layout {
    switches: Vec<(f64, f64)>,
    hosts: Vec<(f64, f64)>,
    appliances: Vec<(f64, f64)>,
    bottom: f64,
}

impl Layout {
    /// Switches with hosts are at the bottom, others above by their distance from those.
    fn of(network: &Network) -> Self {
        let tier = |at: usize| {
            let far = network.distances(at);
            network.hosts.iter().map(|host| far[host.at]).min().unwrap_or(0).min(8)
        };
        let tiers: Vec<usize> = (0..network.switches.len()).map(tier).collect();
        let top = tiers.iter().copied().max().unwrap_or(0);
        let mut switches = vec![(0.0, 0.0); tiers.len()];
        for level in 0..=top {
            let there: Vec<usize> = (0..tiers.len()).filter(|&at| tiers[at] == level).collect();
            for (place, &at) in there.iter().enumerate() {
                let x = WIDTH * (place as f64 + 0.5) / there.len() as f64;
                switches[at] = (x, TOP + ROW * (top - level) as f64);
            }
        }
        let bottom = TOP + ROW * (top as f64 + 0.75);
        let beside = |count: &mut Vec<usize>, at: usize| {
            count[at] += 1;
            count[at] - 1
        };
        let mut count = vec![0; tiers.len()];
        let appliances = network.appliances.iter().map(|appliance| {
            let ((x, y), nth) = (switches[appliance.at], beside(&mut count, appliance.at));
            (x + 62.0, y - 16.0 + 40.0 * nth as f64)
        });
        let appliances = appliances.collect();
        let mut count = vec![0; tiers.len()];
        let hosts = network.hosts.iter().map(|host| {
            let nth = beside(&mut count, host.at);
            let all = network.hosts.iter().filter(|other| other.at == host.at).count();
            let room = (WIDTH / network.hosts.len().max(1) as f64).min(70.0);
            (switches[host.at].0 + room * (nth as f64 - (all - 1) as f64 / 2.0), bottom)
        });
        let hosts = hosts.collect();
        Self { switches, hosts, appliances, bottom }
    }
}

/// How a part of a tree is drawn.
#[derive(Debug, Clone, Copy)]
enum Line {
    InForce,
    /// Not pushed everywhere.
    Untold,
    /// From a backup to the one that it stands by for.
    Ready,
}

/// The picture as SVG.
pub(crate) fn svg(core: &Core, now: Duration) -> String {
    let (network, view) = (&core.network, core.view(now));
    let layout = Layout::of(network);
    let standing = standing(&view.leadership);
    let shown = view.moves.len().min(MOVES_SHOWN) + drawn(&view).count() + standing.len();
    let height = layout.bottom + 60.0 + LINE * shown as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\
         <title>{}</title><style>{STYLE}</style>\n",
        escaped(&view.name)
    );
    cables(&mut out, network, &layout);
    trees(&mut out, core, &view, &layout);
    for (switch, (x, y)) in network.switches.iter().zip(&layout.switches) {
        boxed(&mut out, (*x, *y), (76.0, 26.0), "switch", &[&switch.name]);
    }
    for (appliance, at) in view.appliances.iter().zip(&layout.appliances) {
        let load = format!("{:.0} packets/s", appliance.packets_per_second);
        let class = class(appliance);
        boxed(&mut out, (at.0 + 20.0, at.1), (98.0, 36.0), &class, &[&appliance.name, &load]);
    }
    for (host, at) in network.hosts.iter().zip(&layout.hosts) {
        boxed(&mut out, *at, (52.0, 22.0), "host", &[&host.name]);
    }
    let mut y = layout.bottom + 40.0;
    let mut line = |out: &mut String, text: &str, colour: &str| {
        let text = escaped(text);
        let _ = writeln!(out, "<text x=\"12\" y=\"{y:.0}\" style=\"fill:{colour}\">{text}</text>");
        y += LINE;
    };
    for (text, colour) in standing {
        line(&mut out, &text, colour);
    }
    for Drawn { job, id, in_force, colour, .. } in drawn(&view) {
        let told = if in_force { "in force" } else { "not in force everywhere" };
        let of = if id == job.id { String::new() } else { format!(" tree {}", id - job.id + 1) };
        line(&mut out, &format!("job {id} {:?}{of}: {} ranks, {told}", job.name, job.ranks), colour);
    }
    for moved in view.moves.iter().take(MOVES_SHOWN) {
        line(&mut out, &format!("{:.0} s ago: {}", moved.seconds_ago, moved.text), "#444");
    }
    out.push_str("</svg>\n");
    out
}

/// The leader of several controllers, and errors of the store; with colours.
fn standing(leadership: &LeadershipView) -> Vec<(String, &'static str)> {
    let mut lines = Vec::new();
    if let Some(member) = &leadership.member {
        let leads = match (&leadership.leader, leadership.leads) {
            (_, true) => format!("controller {member} leads"),
            (Some(leader), false) => format!("controller {member} follows {leader}"),
            (None, false) => format!("controller {member}: no leader, no part moves"),
        };
        lines.push((leads, "#222"));
    }
    lines.extend(leadership.problem.iter().map(|problem| (problem.clone(), "#b2182b")));
    lines
}

/// A tree in the picture.
struct Drawn<'a> {
    job: &'a JobView,
    id: u16,
    in_force: bool,
    tree: &'a [NodeView],
    colour: &'static str,
}

/// The trees of all jobs.
fn drawn(view: &View) -> impl Iterator<Item = Drawn<'_>> {
    let trees = view.jobs.iter().flat_map(|job| {
        let further = job.further_trees.iter().map(move |tree| (job, tree.id, tree.in_force, &*tree.tree));
        core::iter::once((job, job.id, job.in_force, &*job.tree)).chain(further)
    });
    let colours = COLOURS.into_iter().cycle();
    trees.zip(colours).map(|((job, id, in_force, tree), colour)| Drawn { job, id, in_force, tree, colour })
}

fn trees(out: &mut String, core: &Core, view: &View, layout: &Layout) {
    let network = &core.network;
    for Drawn { job, id, in_force, tree, colour } in drawn(view) {
        let line = if in_force { Line::InForce } else { Line::Untold };
        // A worker's lines in several trees are side by side.
        let beside = 4.0 * f64::from(id - job.id);
        for node in tree {
            let Some(at) = network.appliance(&node.appliance) else { continue };
            let to = node.parent.as_deref().and_then(|parent| network.appliance(parent));
            if let Some(to) = to {
                curve(out, layout.appliances[at], layout.appliances[to], colour, line);
            }
            for name in &node.backups {
                let Some(by) = network.appliance(name) else { continue };
                curve(out, layout.appliances[by], layout.appliances[at], colour, Line::Ready);
            }
            for &rank in &node.ranks {
                let host = core.host_of(job.id, rank).map(|host| layout.hosts[host]);
                if let Some((x, y)) = host {
                    curve(out, (x + beside, y - 12.0), layout.appliances[at], colour, line);
                }
            }
        }
    }
}

fn cables(out: &mut String, network: &Network, layout: &Layout) {
    let mut cable = |(x1, y1): (f64, f64), (x2, y2): (f64, f64)| {
        let _ = writeln!(
            out,
            "<line class=\"cable\" x1=\"{x1:.0}\" y1=\"{y1:.0}\" x2=\"{x2:.0}\" y2=\"{y2:.0}\"/>"
        );
    };
    for (at, switch) in network.switches.iter().enumerate() {
        for &to in switch.links.iter().filter(|&&to| to > at) {
            cable(layout.switches[at], layout.switches[to]);
        }
    }
    for (host, &place) in network.hosts.iter().zip(&layout.hosts) {
        cable(place, layout.switches[host.at]);
    }
}

fn class(appliance: &ApplianceView) -> String {
    let health = match appliance.health {
        Health::Up => "up",
        Health::Down => "down",
        Health::Unknown => "unknown",
    };
    format!("{health}{}", if appliance.spare { " spare" } else { "" })
}

fn curve(out: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, line: Line) {
    let middle = f64::midpoint(y1, y2);
    let dash = match line {
        Line::InForce => "",
        Line::Untold => " stroke-dasharray=\"5 4\"",
        Line::Ready => " stroke-dasharray=\"1 5\"",
    };
    let _ = writeln!(
        out,
        "<path class=\"tree\" stroke=\"{colour}\"{dash} d=\"M{x1:.0} {y1:.0}C{x1:.0} {middle:.0} \
         {x2:.0} {middle:.0} {x2:.0} {y2:.0}\"/>"
    );
}

fn boxed(out: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, lines: &[&str]) {
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{left:.0}\" y=\"{top:.0}\" width=\"{width}\" height=\"{height}\" \
         rx=\"4\"/>"
    );
    for (place, text) in lines.iter().enumerate() {
        let y = y + 4.0 + LINE * (place as f64 - (lines.len() - 1) as f64 / 2.0);
        let (text, dim) = (escaped(text), if place > 0 { " class=\"dim\"" } else { "" });
        let _ = writeln!(out, "<text{dim} x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"middle\">{text}</text>");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
