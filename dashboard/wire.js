// Reads what /events says into records of known shape. The server's words may hold what clients chose, and a newer
// router may say things differently, so nothing here trusts a type, a sign or a length.

export const PHASES = ["queue", "admission", "prefill", "transfer", "decode", "network"];
export const OUTCOMES = ["ok", "cancelled", "deadline", "refused", "unavailable", "failed"];
export const MAX_REQUESTS = 10_000;
export const MAX_SNAPSHOTS = 300;
export const MAX_WORKERS = 1024;
export const MAX_PAIRS = 1024;
const MAX_TEXT = 200;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const object = (value) => (isObject(value) ? value : {});
const list = (value, most) => (Array.isArray(value) ? value.slice(0, most) : []);
const text = (value) => (typeof value === "string" ? value.slice(0, MAX_TEXT) : "");
// A finite number that is not negative, or null.
const amount = (value) => (typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null);
const count = (value) => amount(value) ?? 0;

const quantiles = (value) => ({p50: amount(object(value).p50), p99: amount(object(value).p99)});

function readWorker(raw) {
  const worker = object(raw);
  return {
    id: text(worker.id), pid: count(worker.pid), role: text(worker.role), address: text(worker.address),
    admin: text(worker.admin), state: text(worker.state), group: text(String(worker.group ?? "")),
    running: count(worker.running), used: count(worker.used_blocks), free: count(worker.free_blocks),
    cached: count(worker.cached_blocks), total: count(worker.total_blocks),
    pendingPromptTokens: count(worker.pending_prompt_tokens), stepAgeMs: amount(worker.step_age_ms),
    stepsPerS: amount(worker.steps_per_s),
  };
}

function readTransfer(raw) {
  const transfer = object(raw);
  return {
    source: text(transfer.source), target: text(transfer.target), bytes: count(transfer.bytes),
    seconds: count(transfer.seconds), reads: count(transfer.reads),
  };
}

function readHeadline(raw) {
  const headline = object(raw);
  return {
    windowS: count(headline.window_s) || 60, requests: count(headline.requests), failed: count(headline.failed),
    ttft: quantiles(headline.ttft_ms), itl: quantiles(headline.itl_ms), e2e: quantiles(headline.e2e_ms),
    goodput: amount(headline.goodput), ttftTargetMs: amount(headline.ttft_target_ms),
    itlTargetMs: amount(headline.itl_target_ms), outputTokensPerS: amount(headline.output_tokens_per_s),
    promptTokensPerS: amount(headline.prompt_tokens_per_s), running: count(headline.running),
    waiting: count(headline.waiting),
  };
}

// The mean of each phase in the order of PHASES, or null when no request ended.
function readPhaseMeans(raw) {
  if (!isObject(raw)) return null;
  const means = PHASES.map((phase) => amount(raw[phase]));
  return means.every((mean) => mean === null) ? null : means.map((mean) => mean ?? 0);
}

export function readSnapshot(raw) {
  const snapshot = object(raw);
  const totals = object(snapshot.totals), cost = object(snapshot.cost);
  const phases = readPhaseMeans(snapshot.phases_ms);
  return {
    t: count(snapshot.t_ms), uptimeS: count(snapshot.uptime_s), version: text(snapshot.version),
    model: text(snapshot.model), serving: snapshot.serving === true, waitsFor: text(snapshot.waits_for),
    totals: {
      requests: count(totals.requests), ok: count(totals.ok), failed: count(totals.failed),
      promptTokens: count(totals.prompt_tokens), outputTokens: count(totals.output_tokens),
    },
    headline: readHeadline(snapshot.headline), phases,
    // How many requests the means are of; at least one where there are means.
    ended: phases ? Math.max(1, count(snapshot.ended)) : 0,
    // Null in the snapshots of a history that have none.
    workers: Array.isArray(snapshot.workers) ? list(snapshot.workers, MAX_WORKERS).map(readWorker) : null,
    transfers: Array.isArray(snapshot.transfers) ? list(snapshot.transfers, MAX_PAIRS).map(readTransfer) : null,
    cost: {
      cpuCores: amount(cost.cpu_cores), telemetryCpuCores: amount(cost.telemetry_cpu_cores),
      rssBytes: amount(cost.rss_bytes), viewers: amount(cost.viewers), bytesPerS: amount(cost.bytes_per_s),
    },
  };
}

export function readRequest(raw) {
  const request = object(raw);
  const phases = list(request.phases_ms, PHASES.length).map(count);
  while (phases.length < PHASES.length) phases.push(0);
  const outcome = text(request.outcome);
  return {
    // Set by the store: unique, and larger for what came later.
    seq: 0,
    id: text(request.id), traceId: text(request.trace_id), end: count(request.end_ms),
    outcome: OUTCOMES.includes(outcome) ? outcome : "failed", finish: text(request.finish), error: text(request.error),
    promptTokens: count(request.prompt_tokens), outputTokens: count(request.output_tokens),
    cachedTokens: count(request.cached_tokens), attempts: count(request.attempts),
    prefillWorker: text(request.prefill_worker), decodeWorker: text(request.decode_worker),
    ttft: amount(request.ttft_ms), itl: amount(request.itl_ms), total: count(request.total_ms), phases,
    transferBytes: count(request.transfer_bytes),
    // The lane of the timeline, set when it has one.
    slot: -1,
  };
}

export const readRequests = (raw) => list(raw, MAX_REQUESTS).map(readRequest);

export function readHistory(raw) {
  const history = object(raw);
  // The newest are at the end of both.
  const newest = (value, most) => (Array.isArray(value) ? value.slice(-most) : []);
  return {
    snapshots: newest(history.snapshots, MAX_SNAPSHOTS).map(readSnapshot),
    requests: newest(history.requests, MAX_REQUESTS).map(readRequest),
  };
}
