// What the page knows: the last ended requests, the last snapshots, and who was lost. All of it is bounded.
import {MAX_REQUESTS, MAX_SNAPSHOTS} from "./wire.js";

const TRANSFER_WINDOW_MS = 60_000;
// How long a worker that has left is still shown.
const DEPARTED_MS = 60_000;
const MAX_DEPARTED = 32;
// Requests that overlap more than so many others share the last lane.
const MAX_SLOTS = 1024;

export const pairKey = (transfer) => `${transfer.source}\n${transfer.target}`;

export class Store {
  // A ring: the oldest is at #head once it is full.
  #ring = [];
  #head = 0;
  #nextSeq = 1;
  #slotEnds = [];
  snapshots = [];
  departed = [];
  sinceMs = 0;

  get latest() {
    return this.snapshots.at(-1) ?? null;
  }

  get newest() {
    return this.#ring.at(this.#head - 1) ?? null;
  }

  get size() {
    return this.#ring.length;
  }

  // Calls visit for each request, the newest first, until it returns false.
  eachNewest(visit) {
    const n = this.#ring.length;
    for (let i = 1; i <= n; ++i) {
      if (visit(this.#ring[(this.#head + n - i) % n]) === false) return;
    }
  }

  all() {
    return [...this.#ring.slice(this.#head), ...this.#ring.slice(0, this.#head)];
  }

  // Replaces everything by what the router remembers.
  load({snapshots, requests}) {
    this.#ring = [];
    this.#head = 0;
    this.#slotEnds = [];
    this.snapshots = [];
    this.departed = [];
    this.addRequests(requests);
    for (const snapshot of snapshots) this.addSnapshot(snapshot);
  }

  // Returns the requests that made room.
  addRequests(requests) {
    const removed = [];
    for (const request of requests) {
      request.seq = this.#nextSeq++;
      this.#takeSlot(request);
      if (this.#ring.length < MAX_REQUESTS) {
        this.#ring.push(request);
      } else {
        removed.push(this.#ring[this.#head]);
        this.#ring[this.#head] = request;
        this.#head = (this.#head + 1) % MAX_REQUESTS;
      }
    }
    return removed;
  }

  addSnapshot(snapshot) {
    const before = this.latest;
    this.#noteDepartures(before, snapshot);
    // How many requests failed since the snapshot before, for the marks under the phase chart.
    snapshot.newlyFailed = before ? Math.max(0, snapshot.totals.failed - before.totals.failed) : 0;
    this.snapshots.push(snapshot);
    if (this.snapshots.length > MAX_SNAPSHOTS) this.snapshots.shift();
    // Only the newest snapshot's workers and a minute of transfers are ever asked for.
    if (before && before !== snapshot) before.workers = null;
    for (const old of this.snapshots) {
      if (old.t >= snapshot.t - TRANSFER_WINDOW_MS) break;
      old.transfers = null;
    }
  }

  // {seconds, pairs}: what each pair moved in the last minute, or in as much of it as this page has seen. With 0
  // seconds, what it moved since the router started.
  transfersOfLastMinute() {
    const latest = this.latest;
    if (!latest?.transfers) return {seconds: 0, pairs: []};
    const oldest = this.snapshots.find((snapshot) => snapshot.transfers);
    const before = new Map(oldest.transfers.map((transfer) => [pairKey(transfer), transfer]));
    const pairs = latest.transfers.map((now) => {
      let then = before.get(pairKey(now));
      // A router that has started again counts from zero.
      if (!then || then === now || then.bytes > now.bytes || then.reads > now.reads) {
        then = {bytes: 0, seconds: 0, reads: 0};
      }
      return {
        source: now.source, target: now.target, totalBytes: now.bytes, totalReads: now.reads,
        bytes: now.bytes - then.bytes, reads: now.reads - then.reads, seconds: Math.max(0, now.seconds - then.seconds),
      };
    });
    return {seconds: (latest.t - oldest.t) / 1000, pairs};
  }

  // A lane of the timeline in which the request overlaps none. Requests come in the order of their ends. Of the lanes
  // that are free since the request began, the one that ended last leaves the others to longer requests: then there are
  // no more lanes than there were requests at a time.
  #takeSlot(request) {
    const begin = request.end - request.total;
    let best = -1;
    this.#slotEnds.forEach((end, slot) => {
      if (end <= begin && (best < 0 || end > this.#slotEnds[best])) best = slot;
    });
    if (best < 0) best = Math.min(this.#slotEnds.length, MAX_SLOTS - 1);
    this.#slotEnds[best] = request.end;
    request.slot = best;
  }

  #noteDepartures(before, snapshot) {
    this.departed = this.departed.filter((worker) => worker.leftAt > snapshot.t - DEPARTED_MS);
    if (!before?.workers || !snapshot.workers) return;
    const present = new Set(snapshot.workers.map((worker) => worker.id));
    const addresses = new Set(snapshot.workers.map((worker) => worker.address));
    for (const worker of before.workers) {
      if (!present.has(worker.id)) this.departed.push({...worker, leftAt: snapshot.t});
    }
    // Whoever has come back under its address is not missing.
    this.departed = this.departed.filter((worker) => !addresses.has(worker.address)).slice(-MAX_DEPARTED);
  }
}

// What arrives while the page is paused, bounded as the store is.
export class Held {
  history = null;
  snapshots = [];
  requests = [];
  // How many requests have arrived, also those that had to make room.
  arrived = 0;

  hold(name, value) {
    if (name === "history") {
      this.history = value;
      this.snapshots = [];
      this.requests = [];
    } else if (name === "snapshot") {
      this.snapshots.push(value);
      if (this.snapshots.length > MAX_SNAPSHOTS) this.snapshots.shift();
    } else {
      this.arrived += value.length;
      this.requests.push(...value);
      if (this.requests.length > MAX_REQUESTS) this.requests.splice(0, this.requests.length - MAX_REQUESTS);
    }
  }
}
