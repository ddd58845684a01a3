// A card for each worker, those first that need a look.
import {byId, make, reconcile, setAttribute, setText} from "./dom.js";
import {clock, count, durationText, joined, percent, plural, rate} from "./format.js";
import {nameOf} from "./names.js";

// Cards shown before somebody asks for all, and then at most.
const FEW = 12;
const MOST = 256;
// An engine that has been in one step for so long is worth a look.
const SLOW_STEP_MS = 1_000;

const ROLES = ["prefill", "decode", "mixed"];
const STATES = ["lost", "left", "draining", "serving"];

function stateOf(worker) {
  if (worker.leftAt) return worker.state === "draining" ? "left" : "lost";
  return worker.state || "serving";
}

const urgency = (worker) => {
  if (stateOf(worker) === "lost") return 0;
  if (stateOf(worker) !== "serving") return 1;
  return (worker.stepAgeMs ?? 0) > SLOW_STEP_MS ? 2 : 3;
};

const roleOrder = ({role}) => (ROLES.indexOf(role) + ROLES.length + 1) % (ROLES.length + 1);

function compare(a, b) {
  return urgency(a) - urgency(b) || roleOrder(a) - roleOrder(b) || (a.address < b.address ? -1 : 1);
}

function describe(worker) {
  switch (stateOf(worker)) {
    case "lost": return `lost at ${clock(worker.leftAt)}, was running ${plural(worker.running, "request")}`;
    case "left": return `drained and left at ${clock(worker.leftAt)}`;
    case "draining": return `draining: ${plural(worker.running, "request")} to finish`;
    default: return stateOf(worker);
  }
}

function createCard(onChoose) {
  const parts = {};
  const part = (name, tag = "span") => (parts[name] = make(tag, {class: name}));
  const fact = (name, label) => make("div", {}, make("dt", {}, label), part(name, "dd"));
  const choose = make("button", {type: "button", class: "quiet"}, "Requests");
  const card = make(
    "li", {class: "card"},
    make("div", {class: "card-head"}, part("role"), part("name", "h3"), part("state")),
    make("div", {class: "batch"}, part("running", "b"), part("running-unit")),
    make("div", {class: "kv-bar", "aria-hidden": "true"}, part("used-bar", "i"), part("cached-bar", "i")),
    make("dl", {class: "facts"}, fact("used", "KV used"), fact("cached", "cached"), fact("free", "free"),
         fact("steps", "steps/s"), fact("age", "step age"), fact("pending", "tokens due")),
    make("div", {class: "card-foot"}, part("address"), choose));
  choose.addEventListener("click", () => onChoose(card.worker.address));
  return Object.assign(card, {parts, choose});
}

function updateCard(card, worker) {
  card.worker = worker;
  const {parts} = card, total = worker.total || worker.used + worker.cached + worker.free;
  const share = (blocks) => (total > 0 ? Math.min(1, blocks / total) : 0);
  setAttribute(card, "data-role", ROLES.includes(worker.role) ? worker.role : "other");
  setAttribute(card, "data-state", STATES.includes(stateOf(worker)) ? stateOf(worker) : "other");
  setText(parts.role, worker.role || "worker");
  setText(parts.name, nameOf(worker.address));
  setText(parts.state, describe(worker) + (worker.pid ? ` · pid ${worker.pid}` : ""));
  setText(parts.running, count(worker.running));
  setText(parts["running-unit"], worker.running === 1 ? "request in the batch" : "requests in the batch");
  for (const state of ["used", "cached", "free"]) {
    setText(parts[state], total > 0 ? joined(percent(share(worker[state]))) : "–");
    setAttribute(parts[state], "title", `${count(worker[state])} of ${count(total)} blocks`);
  }
  parts["used-bar"].style.width = `${share(worker.used) * 100}%`;
  parts["cached-bar"].style.width = `${share(worker.cached) * 100}%`;
  setText(parts.steps, rate(worker.stepsPerS));
  setText(parts.age, durationText(worker.stepAgeMs));
  parts.age.classList.toggle("alarming", (worker.stepAgeMs ?? 0) > SLOW_STEP_MS);
  setText(parts.pending, count(worker.pendingPromptTokens));
  setText(parts.address, worker.address);
  setAttribute(card, "title", worker.admin ? `${worker.address}, admin port ${worker.admin}` : worker.address);
  setAttribute(card.choose, "aria-label", `Show the requests of ${worker.address}`);
}

// onChoose(address) when somebody asks for a worker's requests.
export function workers(store, invalidate, onChoose) {
  const more = byId("workers-all");
  let showsAll = false;
  more.addEventListener("click", () => {
    showsAll = !showsAll;
    invalidate();
  });

  return function draw() {
    const latest = store.latest;
    if (!latest?.workers) return;
    const everyone = [...latest.workers, ...store.departed].sort(compare);
    reconcile(byId("worker-cards"), everyone.slice(0, showsAll ? MOST : FEW), {
      key: (worker) => worker.id + (worker.leftAt ?? ""), create: () => createCard(onChoose), update: updateCard,
    });
    const draining = latest.workers.filter((worker) => worker.state === "draining").length;
    const counts = ROLES.map((role) => [latest.workers.filter((worker) => worker.role === role).length, role]);
    setText(byId("workers-hint"), [
      ...counts.filter(([number]) => number > 0).map(([number, role]) => `${number} ${role}`),
      ...(draining > 0 ? [`${draining} draining`] : []),
      ...(store.departed.length > 0 ? [`${store.departed.length} gone`] : []),
    ].join(" · "));
    more.hidden = everyone.length <= FEW;
    setText(more, showsAll ? "Show fewer" : `Show all ${count(Math.min(MOST, everyone.length))}`);
    setAttribute(more, "aria-expanded", String(showsAll));
    byId("workers-empty").hidden = everyone.length > 0;
    setText(byId("workers-empty"),
            "No worker has joined. Start one: baton decode-worker --router HOST:PORT, or run baton serve.");
  };
}
