// The page: takes snapshots from /live and shows them.

import { chart, text } from "./draw.js";
import { bits, span } from "./format.js";
import { show as showJobs } from "./jobs.js";
import * as tables from "./tables.js";

// Points of the chart: half a minute at first, two minutes in the end.
const LEAST = 60;
const HISTORY = 240;
const STALE_MS = 4000;
const RETRY_MS = 3000;
const THEMES = ["auto", "light", "dark"];

const points = [];
let paused = false;
let configured = "";
let lastHeard = 0;

function badge(said, kind) {
  text("health", said);
  document.getElementById("health").dataset.state = kind;
}

function show(snapshot) {
  text("name", snapshot.name);
  document.title = `${snapshot.name} · Pascaline`;
  text("uptime", `up ${span(snapshot.uptime_seconds)}`);
  text("version", `Pascaline ${snapshot.version}`);
  tables.traffic(snapshot);
  tables.books(snapshot);
  showJobs(snapshot);
  tables.pool(snapshot);
  tables.lcores(snapshot);
  tables.drops(snapshot);
  tables.olaf(snapshot);
  tables.ports(snapshot);
  tables.server(snapshot);
  const config = JSON.stringify(snapshot.config);
  if (config !== configured) {
    configured = config;
    tables.config(snapshot);
  }
}

function plot({ traffic }) {
  points.push([traffic.received.bytes_per_second, traffic.sent.bytes_per_second]);
  if (points.length > HISTORY) points.shift();
  if (paused) return;
  const ceiling = chart(document.getElementById("chart"), points, Math.max(points.length, LEAST));
  text("chart-scale", `top: ${bits(ceiling).join(" ")}, last ${points.length < LEAST ? "30 s" : span(points.length / 2)}`);
}

function listen() {
  const source = new EventSource("/live");
  source.onmessage = (event) => {
    lastHeard = Date.now();
    const snapshot = JSON.parse(event.data);
    // Also of a page that is paused: it says whether anybody is there.
    badge(snapshot.healthy ? "live" : "ending", snapshot.healthy ? "good" : "warn");
    plot(snapshot);
    if (!paused) show(snapshot);
  };
  source.onerror = () => {
    badge("no connection", "bad");
    // The browser tries again by itself, unless it was refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, RETRY_MS);
  };
}

setInterval(() => {
  if (lastHeard && Date.now() - lastHeard > STALE_MS) badge("no news", "bad");
}, 1000);

function remembered() {
  try {
    return localStorage.getItem("theme") ?? "auto";
  } catch {
    return "auto";
  }
}

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  text("theme", `Theme: ${name}`);
  try {
    localStorage.setItem("theme", name);
  } catch {
    // A browser that keeps nothing still has a theme for now.
  }
}

let chosen = THEMES.includes(remembered()) ? remembered() : "auto";
theme(chosen);
document.getElementById("theme").addEventListener("click", () => {
  chosen = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length];
  theme(chosen);
});

const pause = document.getElementById("pause");
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Paused" : "Pause";
});

listen();
