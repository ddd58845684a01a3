// The bar that shows where the time of an answer went.

const PHASES = ["queue", "admission", "prefill", "transfer", "decode", "network"];
const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

export function duration(ms) {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms >= 10 ? ms.toFixed(0) : ms.toFixed(1)} ms`;
}

function legendOf(name, ms) {
  const mark = svg("svg", {viewBox: "0 0 10 10", "aria-hidden": "true"});
  mark.append(svg("rect", {width: 10, height: 10, rx: 2, class: name}));
  const item = document.createElement("li");
  item.append(mark, `${name} ${duration(ms)}`);
  return item;
}

// `phases`: milliseconds by name, as NAME_ms.
export function phaseBar(phases) {
  const times = PHASES.map((name) => [name, Math.max(0, Number(phases[`${name}_ms`]) || 0)]);
  const total = times.reduce((sum, [, ms]) => sum + ms, 0);
  const bar = svg("svg", {class: "phases", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img"});
  bar.setAttribute("aria-label", `Time of the answer: ${times.map(([name, ms]) => `${name} ${duration(ms)}`).join(", ")}`);
  let at = 0;
  for (const [name, ms] of times) {
    const width = total > 0 ? (1000 * ms) / total : 0;
    bar.append(svg("rect", {x: at, y: 0, width, height: 10, class: name}));
    at += width;
  }
  const legend = document.createElement("ul");
  legend.className = "legend";
  legend.append(...times.map(([name, ms]) => legendOf(name, ms)));
  return [bar, legend];
}
