//! A plan as a picture: switches by tier, the links that carry flows, how full they are, and what binds.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::model::{Aggregates, Channel, Instance, Network};
use crate::plan::{Plan, Proof};

const ROW: f64 = 220.0;
const TOP: f64 = 96.0;
const MARGIN: f64 = 60.0;
/// A picture of more links than this leaves out those without flows.
const CROWD: usize = 4_000;

/// The picture, as SVG. Hovering over a link or a switch shows its numbers.
pub fn to_svg(instance: &Instance, plan: &Plan) -> String {
    let network = &instance.network;
    let places = places(network);
    let tiers = f64::from(network.switches.iter().map(|switch| switch.tier).max().unwrap_or(0)) + 1.0;
    let width = places.iter().map(|place| place.0).fold(400.0, f64::max) + MARGIN;
    let height = TOP + ROW * tiers + 40.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    heading(&mut svg, instance, plan);
    links(&mut svg, network, plan, &places);
    switches(&mut svg, instance, &places);
    svg.push_str("</svg>\n");
    svg
}

fn heading(svg: &mut String, instance: &Instance, plan: &Plan) {
    let proof = match plan.proof {
        Proof::Optimal => "proven optimal".to_owned(),
        Proof::Gap => format!("gap {:.2} %", plan.gap() * 100.0),
        Proof::None => "no proof".to_owned(),
    };
    let title = format!(
        "{} — {:.3} Gbit/s, k = {}, {proof} ({})",
        if instance.name.is_empty() { "plan" } else { &instance.name },
        plan.objective,
        plan.k,
        plan.solver
    );
    text(svg, (MARGIN / 2.0, 28.0), 18, &title);
    text(svg, (MARGIN / 2.0, 50.0), 12, &format!("binding: {} — {}", plan.binding.kind, plan.binding.why));
    let legend = "filled: adds; ring: appliance beside it; line: flows, thick for many, green to orange for \
                  load; red: full and binding";
    text(svg, (MARGIN / 2.0, 68.0), 11, legend);
}

fn text(svg: &mut String, (x, y): (f64, f64), size: u32, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\">{}</text>", escaped(content));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The position of each switch: the highest tier on top, each tier spread over the width.
fn places(network: &Network) -> Vec<(f64, f64)> {
    let highest = network.switches.iter().map(|switch| switch.tier).max().unwrap_or(0);
    let mut counts = vec![0usize; usize::from(highest) + 1];
    network.switches.iter().for_each(|switch| counts[usize::from(switch.tier)] += 1);
    let width = counts.iter().copied().max().unwrap_or(1) as f64 * 46.0;
    let mut next = vec![0usize; counts.len()];
    let place = |switch: &crate::model::Switch| {
        let tier = usize::from(switch.tier);
        let at = next[tier] as f64;
        next[tier] += 1;
        let x = MARGIN + (at + 0.5) * width / counts[tier] as f64;
        (x, TOP + 30.0 + ROW * f64::from(highest - switch.tier))
    };
    network.switches.iter().map(place).collect()
}

fn links(svg: &mut String, network: &Network, plan: &Plan, places: &[(f64, f64)]) {
    let loads = plan.loads();
    let mut flows = vec![0u32; network.channels()];
    plan.tasks.iter().flat_map(|task| &task.flows).for_each(|&(channel, number)| flows[channel] += number);
    let line = |svg: &mut String, at: usize, style: &str, title: &str| {
        let (lower, upper) = (places[network.links[at].lower], places[network.links[at].upper]);
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {style}><title>{}</title></line>",
            lower.0,
            lower.1,
            upper.0,
            upper.1,
            escaped(title)
        );
    };
    if network.links.len() <= CROWD {
        for at in 0..network.links.len() {
            line(svg, at, "stroke=\"#e4e4e4\"", "no flow");
        }
    }
    for channel in (0..2 * network.links.len()).filter(|&channel| flows[channel] > 0) {
        let full = loads.get(&channel).copied().unwrap_or(0.0) / network.capacity(channel);
        let binding = full > 1.0 - 1e-6 && plan.binding.channels.contains(&channel);
        let colour =
            if binding { "#c81e1e".to_owned() } else { format!("hsl({:.0} 70% 42%)", 130.0 - 95.0 * full) };
        let dashes = if network.up(channel / 2) == channel { "" } else { " stroke-dasharray=\"6 3\"" };
        let thick = 0.8 + 0.5 * f64::from(flows[channel].min(12));
        let style =
            format!("stroke=\"{colour}\" stroke-width=\"{thick:.1}\" stroke-opacity=\"0.75\"{dashes}");
        line(svg, channel / 2, &style, &caption(network, channel, flows[channel], full));
    }
}

fn caption(network: &Network, channel: Channel, flows: u32, full: f64) -> String {
    format!("{}: {flows} flows, {:.0} % full", network.channel_name(channel), full * 100.0)
}

fn switches(svg: &mut String, instance: &Instance, places: &[(f64, f64)]) {
    let network = &instance.network;
    let mut workers = vec![0usize; network.switches.len()];
    let mut hosts = vec![false; network.switches.len()];
    for task in &instance.tasks {
        hosts[network.servers[task.server].switch] = true;
        task.workers.iter().for_each(|&worker| workers[network.servers[worker].switch] += 1);
    }
    for (at, (switch, &(x, y))) in network.switches.iter().zip(places).enumerate() {
        let (fill, ring) = match switch.aggregates {
            Aggregates::No => ("#fff", ""),
            Aggregates::Inside { .. } => ("#2b6cb0", ""),
            Aggregates::Beside { .. } => ("#fff", " stroke-dasharray=\"3 2\" stroke-width=\"4\""),
        };
        let adds = match switch.aggregates {
            Aggregates::No => "forwards".to_owned(),
            Aggregates::Inside { pipelines } => format!("adds, {pipelines} pipelines"),
            Aggregates::Beside { gbps } => format!("an appliance beside it, {gbps} Gbit/s"),
        };
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" fill=\"{fill}\" stroke=\"#2b6cb0\"{ring}><title>\
             {}: {adds}</title></circle>",
            escaped(&switch.name)
        );
        text(svg, (x - 12.0, y - 14.0), 9, &switch.label);
        if workers[at] > 0 {
            text(svg, (x - 10.0, y + 24.0), 10, &format!("{} w", workers[at]));
        }
        if hosts[at] {
            text(svg, (x - 10.0, y + 36.0), 11, "PS");
        }
    }
}
