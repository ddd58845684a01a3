#!/usr/bin/env python3
"""Checks the dependency table: which folder may include whom. Runs as a test; says every breach with its line."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROTO = "proto"
ALLOWED = {
    "common": {PROTO},
    "modelfile": {"common"},
    "tokenizer": {"common", "modelfile"},
    "engine": {"common", "modelfile"},
    "kvtransfer": {"common", PROTO},
    "router": {"common", PROTO, "modelfile", "tokenizer"},
    "worker": {"common", PROTO, "modelfile", "engine", "kvtransfer"},
    "prefill_worker": {"common", PROTO, "modelfile", "engine", "kvtransfer", "worker"},
    "decode_worker": {"common", PROTO, "modelfile", "engine", "kvtransfer", "worker"},
    "bench": {"common", PROTO, "modelfile", "engine", "kvtransfer"},
    "cli": {"common", PROTO, "modelfile", "tokenizer", "engine", "kvtransfer", "router", "worker",
            "prefill_worker", "decode_worker", "bench"},
}
# Cores without I/O: neither gRPC nor threads nor the machine's clock.
CORES = [
    "engine/block_pool", "engine/batch_scheduler", "engine/engine.", "engine/sampler", "engine/sequence",
    "kvtransfer/kv_source", "kvtransfer/kv_sink", "router/dispatcher", "router/placement", "router/worker_registry",
    "prefill_worker/prefill_core", "decode_worker/decode_core",
]
CORE_BANS = re.compile(r"#include <(thread|chrono|mutex|grpcpp/|sys/socket)|MonotonicClock\(|SystemRandom\(")
# The only places that read the machine's clock or its randomness by themselves.
WALL_CLOCK = re.compile(r"std::chrono::(steady|system|high_resolution)_clock::now|std::random_device|clock_gettime")
WALL_CLOCK_FILES = {"common/clock.cc", "common/random.cc", "router/generation_service.cc", "router/router_loop.cc",
                    "bench/load/grpc_client.cc", "cli/"}
INCLUDE = re.compile(r'^\s*#include "([^"]+)"')


def folder_of(include):
    first = include.split("/")[0]
    return PROTO if first in ("baton", "google") else first


def sources():
    for folder in ALLOWED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                yield folder, path.relative_to(ROOT)


def check(folder, path):
    text = (ROOT / path).read_text()
    is_test = path.stem.endswith(("_test", "_fuzz", "_bench"))
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match and "/" in match.group(1):
            target = folder_of(match.group(1))
            if target in ALLOWED.keys() | {PROTO} and target != folder and target not in ALLOWED[folder]:
                yield f"{path}:{number}: {folder} may not include {match.group(1)}"
        if not is_test and str(path).startswith(tuple(CORES)) and CORE_BANS.search(line):
            yield f"{path}:{number}: a core without I/O may not use: {line.strip()}"
        if not is_test and WALL_CLOCK.search(line) and not str(path).startswith(tuple(WALL_CLOCK_FILES)):
            yield f"{path}:{number}: inject common/clock.h instead of: {line.strip()}"


def main():
    breaches = [breach for folder, path in sources() for breach in check(folder, path)]
    print("\n".join(breaches) or "every include and every core keeps to the table")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
