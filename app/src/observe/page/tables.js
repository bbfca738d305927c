// Everything that is a table or a list of figures.

import { fill, heat, make, meter, table, text } from "./draw.js";
import { bits, bytes, packets, percent, rate, seconds, whole, words } from "./format.js";

function figure(name, [value, unit], kind = "", hint = "") {
  return [make("dt", {}, name), make("dd", { class: kind, title: hint }, value, " ", make("small", {}, unit))];
}

// dt and dd in a div each, so that a grid keeps them together.
function figures(id, ...list) {
  fill(id, ...list.map((pair) => make("div", {}, ...pair)));
}

function nothing(said) {
  return make("p", { class: "muted" }, said);
}

export function traffic({ traffic }) {
  const reduction = traffic.reduction === null ? ["–", ""] : [traffic.reduction.toFixed(2), "to 1"];
  figures(
    "traffic",
    figure("Received", bits(traffic.received.bytes_per_second), "in"),
    figure("Sent", bits(traffic.sent.bytes_per_second), "out"),
    figure("Packets in", packets(traffic.received.packets_per_second)),
    figure("Sums made", packets(traffic.results.packets_per_second).map((unit, at) => (at ? unit.replace("p/s", "/s") : unit))),
    figure("Reduction", reduction, "", "payload bytes of contributions for each byte of sums, before fan-out"),
  );
}

export function books({ traffic, times }) {
  const parts = ["absorbed", "forwarded", "answered", "dropped"].map((name) => [name, traffic[`${name}_packets`]]);
  const all = Math.max(traffic.received.packets, 1);
  const stack = make("div", { class: "stack", "aria-hidden": "true" });
  for (const [name, count] of parts) {
    const part = make("i", { class: name });
    part.style.width = `${(count / all) * 100}%`;
    stack.append(part);
  }
  const rows = parts.map(([name, count]) => [[make("span", { class: `key ${name}` }), ` ${name}`], whole(count), percent(count / all)]);
  rows.push(["received", whole(traffic.received.packets), ""]);
  fill("books", stack, table(["Packets", "", ""], rows));
  const row = (name, of) => [name, seconds(of.p50), seconds(of.p99), seconds(of.p999)];
  const rowsOfTimes = [row("packet service", times.service), row("first to last", times.spread)];
  fill("times", table(["", "median", "99 %", "99.9 %"], rowsOfTimes));
}

export function pool({ pool }) {
  figures(
    "pool",
    figure("Partials", [whole(pool.open), ""]),
    figure("Kept results", [whole(pool.done), ""]),
    figure("Of slots", [whole(pool.slots), ""]),
  );
  const map = document.getElementById("heat");
  heat(map, pool.cells, pool.slots_per_cell);
  const used = pool.slots ? (pool.open + pool.done) / pool.slots : 0;
  map.setAttribute("aria-label", `Map of the pool: ${percent(used)} of ${pool.slots} slots used, ${pool.open} by partials`);
  text("cell", `a cell: ${pool.slots_per_cell} slots`);
  const rows = pool.counters.filter(([, count]) => count > 0).map(([name, count, perSecond]) => [words(name), whole(count), rate(perSecond, "")]);
  rows.push(["oldest partial", seconds(pool.oldest_seconds), ""]);
  fill("pool-counters", table(["", "total", "now"], rows));
}

export function lcores({ lcores }) {
  const rows = lcores.map((lcore) => [
    String(lcore.lcore),
    [meter(lcore.busy, lcore.busy > 0.9 ? "warn" : ""), percent(lcore.busy)],
    packets(lcore.packets_per_second).join(" "),
    lcore.burst_packets.toFixed(1),
    packets(lcore.empty_polls_per_second).join(" ").replace("p/s", "/s"),
  ]);
  fill("lcores", table(["Lcore", "Busy", "Packets", "Burst", "Empty polls"], rows));
}

export function drops({ drops }) {
  if (drops.length === 0) return fill("drops", nothing("Nothing has been dropped."));
  const rows = drops.map((drop) => [words(drop.reason), whole(drop.packets), rate(drop.packets_per_second, ""), drop.meaning]);
  fill("drops", table(["Reason", "Packets", "Now", ""], rows, { wide: [3] }));
}

export function ports({ ports, buffers }) {
  const rows = ports.map((port) => [
    [port.name, " ", make("span", { class: "badge", "data-state": port.up ? "good" : "bad" }, port.state)],
    bits(port.received.bytes_per_second).join(" "),
    bits(port.sent.bytes_per_second).join(" "),
    whole(port.missed_packets),
    whole(port.receive_errors + port.send_errors),
  ]);
  const troubles = ports.filter((port) => port.trouble).map((port) => nothing(port.trouble));
  fill("ports", table(["Port", "In", "Out", "Missed", "Errors"], rows), ...troubles);
  const held = buffers.map((pool) => [pool.pool, [meter(pool.used / Math.max(pool.capacity, 1)), percent(pool.used / Math.max(pool.capacity, 1))], `${whole(pool.used)} of ${whole(pool.capacity)}`]);
  fill("buffers", table(["Buffers", "In use", ""], held));
}

function series(id, list, none) {
  const rows = list
    .filter((one) => one.value !== 0)
    .map(({ name, labels, value }) => [words(name), labels.map((label) => label[1]).join(", "), Number.isInteger(value) ? whole(value) : value.toPrecision(3)]);
  fill(id, rows.length > 0 ? table(["", "", ""], rows, { wide: [1] }) : nothing(none));
}

export function server({ server, config }) {
  const facts = Object.fromEntries(config.facts);
  const elsewhere = facts["ps.mode"] === "external" ? `It is a process of its own at ${facts["ps.address"]}, and has metrics of its own.` : "There is none.";
  const said = server.length > 0 ? "It has had nothing to do." : elsewhere;
  series("server", server.map((one) => ({ ...one, name: one.name.replace(/^ps_/, "") })), said);
}

// The queue in front of each port, why updates were given up there, and how old the models are.
export function olaf({ olaf, jobs }) {
  const ports = new Map();
  for (const { name, labels, value } of olaf) {
    const label = Object.fromEntries(labels);
    const port = ports.get(label.port) ?? { dropped: [] };
    ports.set(label.port, port);
    if (name === "olaf_dropped") port.dropped.push([label.cause, value]);
    else if (!label.decision && !label.fate) port[name.replace(/^olaf_/, "")] = value;
  }
  const busy = [...ports].filter(([, port]) => port.received > 0);
  const queues = busy.map(([name, port]) => [
    name,
    `${whole(port.queue_depth)} of ${whole(port.queue_capacity)}`,
    whole(port.received),
    whole(port.aggregated + port.replaced),
    whole(port.departed),
  ]);
  const idle = ports.size - busy.length;
  const none = ports.size > 0 ? `${idle} ${idle === 1 ? "queue" : "queues"} to which nothing has come.` : "This appliance has no OlafQueue: no job is asynchronous.";
  const dropped = [...ports].flatMap(([name, port]) => port.dropped.filter(([, count]) => count > 0).map(([cause, count]) => [`given up at ${name}: ${words(cause)}`, whole(count)]));
  const ages = jobs.filter((job) => job.model_age_seconds !== null).map((job) => [job.name ? `${job.id} · ${job.name}` : `${job.id}`, seconds(job.model_age_seconds)]);
  fill(
    "olaf",
    ...(queues.length > 0 ? [table(["Queue", "Waiting", "Came", "Combined", "Left"], queues)] : []),
    ...(idle > 0 || ports.size === 0 ? [nothing(none)] : []),
    ...(dropped.length > 0 ? [table(["", ""], dropped)] : []),
    ...(ages.length > 0 ? [table(["Job", "Age of its model"], ages)] : []),
  );
}

export function config({ config }) {
  const pairs = config.facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  const lines = config.summary.map((line) => make("li", {}, line));
  const all = make("details", {}, make("summary", {}, `All ${config.facts.length} settings`), make("dl", { class: "pairs" }, ...pairs));
  fill("config", make("p", { class: "file" }, config.file), make("ul", { class: "summary" }, ...lines), all);
}
