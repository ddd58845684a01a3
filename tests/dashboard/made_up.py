"""Snapshots and requests of which a test states only what matters to it."""

import copy
import itertools
import time

from synthetic_cluster import PHASES, Shape, SyntheticCluster

_CLUSTER = SyntheticCluster(Shape(requests_per_s=4), 40)
_BASE = _CLUSTER.snapshot(30)
_ids = itertools.count(1)


def now_ms():
    return int(time.time() * 1000)


def snapshot(t_ms=None, headline=None, phases=None, **fields):
    """A snapshot of a healthy cluster with these fields; `phases` are means in the order of PHASES."""
    made = (
        copy.deepcopy(_BASE) | {"t_ms": now_ms() if t_ms is None else t_ms, "serving": True, "waits_for": ""} | fields
    )
    made["headline"] |= headline or {}
    if phases is not None:
        made["phases_ms"] = dict(zip(PHASES, phases))
    return made


def request(phases=(1, 1, 20, 2, 200, 0.5), **fields):
    """A request that ended well, just now."""
    number = next(_ids)
    total = round(sum(phases), 6)
    ended = {
        "id": f"{number:032x}",
        "trace_id": f"{number << 64:032x}",
        "end_ms": now_ms(),
        "outcome": "ok",
        "finish": "stop",
        "error": "",
        "prompt_tokens": 100,
        "output_tokens": 11,
        "cached_tokens": 0,
        "attempts": 1,
        "prefill_worker": "10.0.1.10:50061",
        "decode_worker": "10.0.2.10:50061",
        "ttft_ms": sum(phases[:3]),
        "itl_ms": phases[4] / 10,
        "total_ms": total,
        "phases_ms": list(phases),
        "transfer_bytes": 3_686_400,
    }
    return ended | fields


def worker(role, number, **fields):
    return {
        "id": f"{number:032x}",
        "pid": 100 + number,
        "role": role,
        "address": f"10.0.{number}.1:50061",
        "admin": f"10.0.{number}.1:9464",
        "state": "serving",
        "group": "default",
        "running": 3,
        "used_blocks": 250,
        "free_blocks": 250,
        "cached_blocks": 500,
        "total_blocks": 1000,
        "pending_prompt_tokens": 40,
        "step_age_ms": 12.5,
        "steps_per_s": 50,
    } | fields


def history(snapshots=(), requests=()):
    return {"snapshots": list(snapshots), "requests": list(requests)}
