// The jobs, each with its ranks.

import { fill, make, meter, table, text } from "./draw.js";
import { bits, bytes, percent, rate, seconds, whole, words } from "./format.js";

const STATES = {
  empty: ["no rank has joined", "waiting"],
  forming: ["ranks are missing", "warn"],
  running: ["running", "busy"],
  quiet: ["no traffic", "waiting"],
  halted: ["halted", "warn"],
  finished: ["finished", "good"],
  lost: ["ranks lost", "bad"],
};

// By number: the parts that stay when the figures change, so that what is open stays open and what has the focus keeps it.
const shown = new Map();
const states = new Map();

function build(job) {
  const parts = {
    badge: make("span", { class: "badge" }),
    title: make("span", { class: "title" }),
    members: make("span", { class: "muted" }),
    rate: make("span", { class: "rate" }),
    inside: make("div", { class: "inside" }),
  };
  const summary = make("summary", {}, parts.title, parts.badge, parts.members, parts.rate);
  parts.element = make("details", { class: "job", id: `job-${job.id}`, open: shown.size < 4 }, summary, parts.inside);
  return parts;
}

function fact(name, value) {
  return make("span", {}, `${name} `, make("b", {}, value));
}

function ranks(job) {
  if (job.progress.length === 0) return null;
  const fastest = Math.max(...job.progress.map((rank) => rank.bytes_per_second), 1);
  const rows = job.progress.map((rank) => [
    `rank ${rank.rank}`,
    [meter(rank.bytes_per_second / fastest), bits(rank.bytes_per_second).join(" ")],
    rank.psn === null ? "–" : whole(rank.psn),
    job.front === null ? "–" : whole(rank.behind),
    seconds(rank.silent_seconds),
    whole(rank.again),
    [meter(rank.last_share, rank.last_share > 0.6 ? "warn" : ""), percent(rank.last_share)],
  ]);
  const caption = job.ranks > job.progress.length ? `The ${job.progress.length} of ${job.ranks} ranks that are furthest behind` : "";
  const heads = ["Rank", "Sends", "PSN", "Behind", "Silent for", "Resent", "Was last"];
  const region = { class: "scroll", tabIndex: 0, role: "region", "aria-label": `Ranks of job ${job.id}` };
  return make("div", region, table(heads, rows, { caption }));
}

const VERDICTS = {
  yes: ["aggregated here", "good"],
  partly: ["partly aggregated here", "warn"],
  no: ["not aggregated here", "bad"],
  nothing: ["nothing to aggregate yet", "waiting"],
  updates: ["asynchronous", "busy"],
};

// Whether the job is aggregated here, and why not all of it.
function told({ told }) {
  const [said, kind] = VERDICTS[told.aggregated] ?? [told.aggregated, "waiting"];
  const share = told.share === null ? "" : ` ${percent(told.share)} of its bytes`;
  const verdict = make("p", {}, make("span", { class: "badge", "data-state": kind }, said), share);
  const why = told.reasons.map((reason) => make("li", {}, reason.text, " ", make("span", { class: "muted" }, reason.remedy)));
  if (told.parent) verdict.append(` ${told.parent}`);
  if (told.aggregated === "updates") verdict.append(" its updates are combined where they queue before a port");
  return make("div", { class: "told" }, verdict, why.length > 0 ? make("ul", {}, ...why) : null);
}

function counted(job) {
  const rows = [...job.events.map(([name, count]) => [words(name), count]), ...job.drops.map(([reason, count]) => [`dropped: ${words(reason)}`, count])];
  if (rows.length === 0) return null;
  return make("p", { class: "facts" }, ...rows.map(([name, count]) => fact(name, whole(count))));
}

function update(parts, job) {
  const [said, kind] = STATES[job.state] ?? [job.state, "waiting"];
  parts.badge.textContent = said;
  parts.badge.dataset.state = kind;
  parts.title.textContent = job.name ? `${job.id} · ${job.name}` : `${job.id}`;
  parts.members.textContent = job.state === "finished" ? `all ${job.ranks} ranks have left` : `${job.joined} of ${job.ranks} ranks`;
  const asynchronous = job.told.aggregated === "updates";
  parts.rate.textContent = bits((asynchronous ? job.contributions : job.results).bytes_per_second).join(" ");
  parts.rate.title = asynchronous ? "bits of updates per second" : "goodput: bits of sums made per second";
  const facts = asynchronous ? [
    fact("updates", whole(job.contributions.packets)),
    fact("at", rate(job.contributions.packets_per_second, "")),
    fact("age of its model", seconds(job.model_age_seconds)),
  ] : [
    fact("sums", whole(job.results.packets)),
    fact("of", bytes(job.results.bytes)),
    fact("from contributions", whole(job.contributions.packets)),
    fact("at", rate(job.results.packets_per_second, " sums")),
    fact("wait for the last", seconds(job.waited_seconds)),
    job.needed < job.ranks ? fact("complete with", String(job.needed)) : null,
  ];
  const scrolled = parts.inside.querySelector(".scroll")?.scrollLeft ?? 0;
  const focused = parts.inside.contains(document.activeElement);
  const children = [make("p", { class: "facts" }, ...facts.filter(Boolean)), told(job), ranks(job), counted(job)];
  parts.inside.replaceChildren(...children.filter(Boolean));
  const region = parts.inside.querySelector(".scroll");
  if (region) region.scrollLeft = scrolled;
  if (region && focused) region.focus({ preventScroll: true });
}

// What has changed, in words, for those who listen.
function news(jobs) {
  const said = jobs
    .filter((job) => states.has(job.id) && states.get(job.id) !== job.state && job.state !== "quiet")
    .map((job) => `Job ${job.id} ${job.name}: ${(STATES[job.state] ?? [job.state])[0]}.`);
  jobs.forEach((job) => states.set(job.id, job.state));
  if (said.length > 0) text("said", said.join(" "));
}

export function show(snapshot) {
  const list = document.getElementById("job-list");
  if (snapshot.jobs.length === 0) {
    shown.clear();
    fill("job-list", make("p", { class: "muted" }, "No job yet."));
    return;
  }
  if (shown.size === 0) list.replaceChildren();
  const present = new Set(snapshot.jobs.map((job) => job.id));
  for (const [id, parts] of shown) {
    if (!present.has(id)) {
      parts.element.remove();
      shown.delete(id);
    }
  }
  snapshot.jobs.forEach((job, index) => {
    if (!shown.has(job.id)) shown.set(job.id, build(job));
    const parts = shown.get(job.id);
    if (list.children[index] !== parts.element) list.insertBefore(parts.element, list.children[index] ?? null);
    update(parts, job);
  });
  const more = snapshot.jobs_total - snapshot.jobs.length;
  text("jobs-count", more > 0 ? `the ${snapshot.jobs.length} busiest of ${snapshot.jobs_total}` : "");
  news(snapshot.jobs);
}
