// Means of phases over several seconds, each second weighted by how many requests ended in it.
import {PHASES} from "./wire.js";

// {means, ended, failed} of the snapshots; means is null when no request ended.
export function meanOf(snapshots) {
  const sums = PHASES.map(() => 0);
  let ended = 0, failed = 0;
  for (const snapshot of snapshots) {
    failed += snapshot.newlyFailed;
    if (!snapshot.phases) continue;
    ended += snapshot.ended;
    for (let i = 0; i < sums.length; ++i) sums[i] += snapshot.phases[i] * snapshot.ended;
  }
  return {means: ended > 0 ? sums.map((sum) => sum / ended) : null, ended, failed};
}

// Buckets of `seconds` each, the oldest first: {start, means, ended, failed} with start in ms. A bucket begins at a
// multiple of its length, so that a bar does not change as it moves.
export function bucketed(snapshots, seconds) {
  const length = seconds * 1000, buckets = [];
  let members = [], start = null;
  const close = () => members.length > 0 && buckets.push({start, ...meanOf(members)});
  for (const snapshot of snapshots) {
    const begin = Math.floor(snapshot.t / length) * length;
    if (begin !== start) {
      close();
      members = [];
      start = begin;
    }
    members.push(snapshot);
  }
  close();
  return buckets;
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
