// Numbers for people.

const STEPS = ["", "k", "M", "G", "T", "P"];

// Three significant digits with an SI prefix: [number, prefix].
function scaled(value) {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < STEPS.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = step === 0 && Number.isInteger(value) ? 0 : value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return [value.toFixed(digits), STEPS[step]];
}

export function bits(bytesPerSecond) {
  const [number, prefix] = scaled(bytesPerSecond * 8);
  return [number, `${prefix}bit/s`];
}

export function rate(perSecond, what) {
  const [number, prefix] = scaled(perSecond);
  return `${number} ${prefix}${what}/s`.replace("  ", " ");
}

export function packets(perSecond) {
  const [number, prefix] = scaled(perSecond);
  return [number, `${prefix}p/s`.trim()];
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let step = 0;
  while (count >= 1024 && step < units.length - 1) {
    count /= 1024;
    step += 1;
  }
  return `${step === 0 ? count : count.toFixed(count >= 99.5 ? 0 : 1)} ${units[step]}`;
}

// Whole numbers with thin spaces.
export function whole(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (value < 1e-3) return `${(value * 1e6).toFixed(value < 1e-5 ? 1 : 0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 1e-2 ? 1 : 0)} ms`;
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return span(value);
}

export function span(value) {
  const total = Math.floor(value);
  const [days, hours, minutes] = [Math.floor(total / 86400), Math.floor(total / 3600) % 24, Math.floor(total / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${total % 60} s`;
  return `${total} s`;
}

export function percent(share) {
  return `${(share * 100).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
}

// "results_replayed" → "results replayed".
export function words(name) {
  return name.replaceAll("_", " ");
}
