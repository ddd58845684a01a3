// Quantiles of a changing set without sorting it: a histogram whose buckets grow by 1 %, so that a quantile is within
// 0.5 % of the true one. Adding and removing cost one increment.
const GROWTH = Math.log(1.01);
const SMALLEST = 1e-3;
// Up to about five days in milliseconds.
const BUCKETS = 2600;

const bucketOf = (value) =>
  value <= SMALLEST ? 0 : Math.min(BUCKETS - 1, 1 + Math.floor(Math.log(value / SMALLEST) / GROWTH));

export class Quantiles {
  #buckets = new Uint32Array(BUCKETS);
  size = 0;

  add(value) {
    if (value === null) return;
    ++this.#buckets[bucketOf(value)];
    ++this.size;
  }

  // Of a value that was added.
  remove(value) {
    if (value === null) return;
    --this.#buckets[bucketOf(value)];
    --this.size;
  }

  clear() {
    this.#buckets.fill(0);
    this.size = 0;
  }

  // The smallest value that at least this share of the set does not exceed; null of an empty set.
  at(share) {
    if (this.size === 0) return null;
    let left = Math.max(1, Math.ceil(share * this.size));
    for (let bucket = 0; bucket < BUCKETS; ++bucket) {
      left -= this.#buckets[bucket];
      if (left <= 0) return bucket === 0 ? 0 : SMALLEST * Math.exp((bucket - 0.5) * GROWTH);
    }
    return null;
  }
}
