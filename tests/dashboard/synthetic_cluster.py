"""A cluster that is made up: requests and snapshots in the form of /events, drawn from a seed.

Prompts queue for the prefill worker that is free first, and the batch of a decode worker slows its tokens down, so that
the phases look and vary like those of a real cluster.
"""

import bisect
import dataclasses
import itertools
import math
import random

PHASES = ("queue", "admission", "prefill", "transfer", "decode", "network")
KV_BYTES_PER_TOKEN = 36_864
WINDOW_S = 60
TOTAL_BLOCKS = 4096
BLOCK_TOKENS = 16


@dataclasses.dataclass
class Shape:
    """What a cluster is and what befalls it. Times are seconds since its start."""

    seed: int = 7
    prefill: int = 2
    decode: int = 3
    requests_per_s: float = 12
    # (begin, end, factor): more or fewer arrivals for a while.
    bursts: tuple = ()
    # (time, index of a decode worker): it is lost, and its requests with it.
    losses: tuple = ()
    # (time, index of a decode worker): it drains from then on.
    drains: tuple = ()
    failure_share: float = 0.004
    ttft_target_ms: float = 500
    itl_target_ms: float = 50


def percentile(values, share):
    """The smallest value that at least this share does not exceed, as the router computes it."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def hexadecimal(rng):
    return f"{rng.getrandbits(128):032x}"


class SyntheticCluster:
    """Everything that happens in the first `duration_s` seconds, computed at once."""

    def __init__(self, shape, duration_s):
        self.shape = shape
        self._rng = random.Random(shape.seed)
        self.prefill_workers = [
            self._worker("prefill", f"10.0.1.{10 + i}:50061", 4_100 + i) for i in range(shape.prefill)
        ]
        self.decode_workers = [self._worker("decode", f"10.0.2.{10 + i}:50061", 4_200 + i) for i in range(shape.decode)]
        self._loss_of = {index: at for at, index in shape.losses}
        self._drain_of = {index: at for at, index in shape.drains}
        self._free_at = [0.0] * shape.prefill
        self._ends = [[] for _ in range(shape.decode)]
        self.requests = sorted((self._request(at) for at in self._arrivals(duration_s)), key=lambda r: r["end_ms"])
        self.index()

    def index(self):
        """After the requests have changed: their ends, and the totals up to each of them."""
        self._end_times = [request["end_ms"] / 1000 for request in self.requests]
        total = lambda value: [0, *itertools.accumulate(map(value, self.requests))]
        self._totals = {
            "ok": total(lambda r: r["outcome"] == "ok"),
            "failed": total(lambda r: r["outcome"] not in ("ok", "cancelled")),
            "prompt_tokens": total(lambda r: r["prompt_tokens"]),
            "output_tokens": total(lambda r: r["output_tokens"]),
        }

    def _worker(self, role, address, pid):
        return {
            "id": hexadecimal(self._rng),
            "pid": pid,
            "role": role,
            "address": address,
            "admin": address.rpartition(":")[0] + ":9464",
            "group": "default",
        }

    def _arrivals(self, duration_s):
        at = 0.0
        while at < duration_s:
            factor = next((factor for begin, end, factor in self.shape.bursts if begin <= at < end), 1)
            at += self._rng.expovariate(max(0.01, self.shape.requests_per_s * factor))
            yield at

    def _is_up(self, index, at):
        return at < min(self._loss_of.get(index, math.inf), self._drain_of.get(index, math.inf))

    def _request(self, at):
        rng = self._rng
        prompt, output = (max(1, int(rng.lognormvariate(mu, sigma))) for mu, sigma in ((6.2, 0.8), (4.2, 0.7)))
        cached = rng.choice((0, 0, prompt // 3)) // BLOCK_TOKENS * BLOCK_TOKENS
        prefill = min(range(self.shape.prefill), key=lambda i: self._free_at[i])
        up = [index for index in range(self.shape.decode) if self._is_up(index, at)]
        base = {
            "id": hexadecimal(rng),
            "trace_id": hexadecimal(rng),
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "prefill_worker": self.prefill_workers[prefill]["address"],
        }
        if not up:
            return base | self._ended(at, [2.0, 0, 0, 0, 0, 0.3], "unavailable", error="no decode worker has joined")
        decode = min(up, key=lambda i: self._running(i, at))
        base["decode_worker"] = self.decode_workers[decode]["address"]
        compute = (prompt - cached) / 14_000 + rng.uniform(0.004, 0.009)
        begin = max(at, self._free_at[prefill])
        self._free_at[prefill] = begin + compute
        moved = (prompt - cached) * KV_BYTES_PER_TOKEN
        itl = 0.014 * (1 + self._running(decode, begin) / 24) * rng.uniform(0.95, 1.1)
        phases = [
            (begin - at) * 1000 + rng.uniform(0.05, 0.3),
            rng.uniform(0.3, 1.6),
            compute * 1000,
            rng.uniform(0.6, 3) + moved / 3.1e9 * 1000 * rng.choice((0.15, 0.2, 0.9)),
            (output - 1) * itl * 1000,
            rng.uniform(0.15, 0.6) + (rng.random() < 0.01) * rng.uniform(2, 9),
        ]
        return base | self._outcome(
            at, phases, decode, {"output_tokens": output, "itl_ms": itl * 1000, "transfer_bytes": moved}
        )

    def _outcome(self, at, phases, decode, facts):
        end = at + sum(phases) / 1000
        lost_at = self._loss_of.get(decode, math.inf)
        address = self.decode_workers[decode]["address"]
        draw = self._rng.random()
        if end > lost_at:
            phases = _cut(phases, (lost_at - at) * 1000)
            ended = self._ended(
                at, phases, "failed", error=f"decode worker {address} was lost: silent for 1.5 s", attempts=2
            )
        elif draw < self.shape.failure_share:
            ended = self._ended(at, _cut(phases, sum(phases) / 2), "deadline", error="the deadline of 1.5 s passed")
        elif draw < 3 * self.shape.failure_share:
            ended = self._ended(at, _cut(phases, sum(phases) * 0.7), "cancelled", error="")
        else:
            ended = self._ended(at, phases, "ok", finish=self._rng.choice(("stop", "stop", "length")))
        bisect.insort(self._ends[decode], ended["end_ms"] / 1000)
        return facts | ended

    def _running(self, decode, at):
        ends = self._ends[decode]
        return len(ends) - bisect.bisect_right(ends, at)

    @staticmethod
    def _ended(at, phases, outcome, error="", finish="", attempts=1):
        phases = [round(phase, 3) for phase in phases]
        total = round(sum(phases), 3)
        reached_first = phases[3] + phases[4] > 0
        return {
            "end_ms": round(at * 1000 + total),
            "outcome": outcome,
            "finish": finish,
            "error": error,
            "attempts": attempts,
            "ttft_ms": round(sum(phases[:3]), 3) if reached_first else None,
            "total_ms": total,
            "phases_ms": phases,
        } | ({} if reached_first else {"output_tokens": 0, "itl_ms": None, "transfer_bytes": 0, "decode_worker": ""})

    def between(self, begin_s, end_s):
        """Requests that ended in (begin_s, end_s]."""
        return self.requests[
            bisect.bisect_right(self._end_times, begin_s) : bisect.bisect_right(self._end_times, end_s)
        ]

    def snapshot(self, at_s, whole=True):
        """What the router says at that second. All but the last snapshot of a history are not whole."""
        window, second = self.between(at_s - WINDOW_S, at_s), self.between(at_s - 1, at_s)
        ended = bisect.bisect_right(self._end_times, at_s)
        well = [request for request in second if request["outcome"] == "ok"]
        active = [
            request
            for request in self.requests[ended : ended + 4_000]
            if request["end_ms"] - request["total_ms"] <= at_s * 1000
        ]
        waiting = [r for r in active if r["end_ms"] - r["total_ms"] + r["phases_ms"][0] > at_s * 1000]
        workers = self._worker_states(at_s, active)
        return {
            "t_ms": round(at_s * 1000),
            "uptime_s": 7_200 + at_s,
            "version": "0.1.0",
            "model": "smollm2-135m-instruct",
            "serving": any(worker["role"] == "decode" and worker["state"] == "serving" for worker in workers),
            "waits_for": "a decode worker",
            "totals": {"requests": ended, **{name: totals[ended] for name, totals in self._totals.items()}},
            "headline": self._headline(window, len(active) - len(waiting), len(waiting)),
            "phases_ms": (
                {phase: sum(r["phases_ms"][i] for r in well) / len(well) for i, phase in enumerate(PHASES)}
                if well
                else None
            ),
            "ended": len(well),
            **({"workers": workers, "transfers": self._transfers(self.requests[:ended])} if whole else {}),
            "cost": {
                "cpu_cores": 0.18 + 0.01 * math.sin(at_s),
                "telemetry_cpu_cores": 0.0031,
                "rss_bytes": 64 << 20,
                "viewers": 1,
                "bytes_per_s": 4_200,
            },
        }

    def _headline(self, window, running, waiting):
        well = [request for request in window if request["outcome"] == "ok"]
        within = [
            r for r in well if r["ttft_ms"] <= self.shape.ttft_target_ms and r["itl_ms"] <= self.shape.itl_target_ms
        ]
        counted = [request for request in window if request["outcome"] != "cancelled"]
        column = lambda name: [request[name] for request in well]
        return {
            "window_s": WINDOW_S,
            "requests": len(window),
            "failed": len(counted) - len(well),
            **{
                name: {"p50": percentile(column(key), 0.5), "p99": percentile(column(key), 0.99)}
                for name, key in (("ttft_ms", "ttft_ms"), ("itl_ms", "itl_ms"), ("e2e_ms", "total_ms"))
            },
            "goodput": len(within) / len(counted) if counted else None,
            "ttft_target_ms": self.shape.ttft_target_ms,
            "itl_target_ms": self.shape.itl_target_ms,
            "output_tokens_per_s": sum(r["output_tokens"] for r in window) / WINDOW_S,
            "prompt_tokens_per_s": sum(r["prompt_tokens"] for r in window) / WINDOW_S,
            "running": running,
            "waiting": waiting,
        }

    def _worker_states(self, at_s, active):
        states = []
        for worker in self.prefill_workers:
            mine = [r for r in active if r["prefill_worker"] == worker["address"] and self._in_phase(r, at_s, 2)]
            states.append(self._state(worker, mine, at_s, "serving", 9))
        for index, worker in enumerate(self.decode_workers):
            mine = [r for r in active if r["decode_worker"] == worker["address"] and self._in_phase(r, at_s, 4)]
            drains = at_s >= self._drain_of.get(index, math.inf)
            if at_s >= self._loss_of.get(index, math.inf) or (drains and not mine):
                continue
            states.append(self._state(worker, mine, at_s, "draining" if drains else "serving", 60))
        return states

    @staticmethod
    def _in_phase(request, at_s, phase):
        begin = request["end_ms"] - request["total_ms"] + sum(request["phases_ms"][:phase])
        return begin <= at_s * 1000 < begin + request["phases_ms"][phase]

    @staticmethod
    def _state(worker, mine, at_s, state, steps_per_s):
        used = min(TOTAL_BLOCKS, sum(math.ceil((r["prompt_tokens"] + r["output_tokens"]) / BLOCK_TOKENS) for r in mine))
        cached = min(TOTAL_BLOCKS - used, 900 + 37 * (int(at_s) % 40) + worker["pid"] % 7 * 90)
        return worker | {
            "state": state,
            "running": len(mine),
            "used_blocks": used,
            "cached_blocks": cached,
            "free_blocks": TOTAL_BLOCKS - used - cached,
            "total_blocks": TOTAL_BLOCKS,
            "pending_prompt_tokens": sum(r["prompt_tokens"] for r in mine) if worker["role"] == "prefill" else 0,
            "step_age_ms": 3 + worker["pid"] % 5 * 2.3,
            "steps_per_s": steps_per_s * (1 if mine else 0),
        }

    @staticmethod
    def _transfers(ended):
        pairs = {}
        for request in ended:
            if request["transfer_bytes"] == 0:
                continue
            pair = pairs.setdefault(
                (request["prefill_worker"], request["decode_worker"]), {"bytes": 0, "seconds": 0.0, "reads": 0}
            )
            pair["bytes"] += request["transfer_bytes"]
            pair["seconds"] += request["transfer_bytes"] / 3.1e9 + 0.0004
            pair["reads"] += 1
        return [{"source": source, "target": target, **pair} for (source, target), pair in sorted(pairs.items())]

    def history(self, at_s, offset_ms=0, snapshots=300, requests=10_000):
        """The `history` event at that second. `offset_ms` moves all times."""
        kept = [
            self.snapshot(second, whole=second == int(at_s))
            for second in range(max(1, int(at_s) - snapshots + 1), int(at_s) + 1)
        ]
        return shifted({"snapshots": kept, "requests": self.between(-1, at_s)[-requests:]}, offset_ms)


def shifted(event, offset_ms):
    """The same snapshot, request or history at another time."""
    if isinstance(event, list):
        return [shifted(item, offset_ms) for item in event]
    if "snapshots" in event:
        return {key: shifted(value, offset_ms) for key, value in event.items()}
    key = "t_ms" if "t_ms" in event else "end_ms"
    return event | {key: event[key] + offset_ms}


def _cut(phases, length_ms):
    """The beginning of the phases, up to a length."""
    left, cut = max(0.0, length_ms), []
    for phase in phases:
        cut.append(min(phase, left))
        left -= cut[-1]
    return cut
