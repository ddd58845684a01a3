#!/usr/bin/env python3
"""Writes the admin ports of a running cluster as targets for Prometheus' file_sd_configs.

    deploy/prometheus/targets.py --target 127.0.0.1:50051 --out /etc/prometheus/baton/local.json --every 10

Workers of `baton serve` take any free admin port, and another one when they start again. With --every the file follows
them; without, it is written once. While the router does not answer, the file stays as it is, so that Prometheus sees
targets that are down, and not a cluster that is gone. Exit codes: 0 done, 1 no answer, 2 wrong usage.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

STATUS_TIMEOUT_S = 20


def admin_ports(baton, target):
    """HOST:PORT of each process that has an admin port; an error text when the router does not say."""
    try:
        done = subprocess.run([baton, "status", "--target", target, "--json"], capture_output=True, text=True,
                              timeout=STATUS_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"{baton} status: {error}"
    if done.returncode != 0:
        return [], done.stderr.strip() or f"{baton} status exited with {done.returncode}"
    status = json.loads(done.stdout)
    return [process["admin"] for process in (status["router"], *status["workers"]) if process.get("admin")], None


def write(path, job, ports):
    """Prometheus never reads half a file: the new one takes the old one's place at once."""
    text = json.dumps([{"targets": sorted(ports), "labels": {"job": job}}], indent=1) + "\n"
    if path.is_file() and path.read_text() == text:
        return
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text)
    scratch.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="127.0.0.1:50051", help="HOST:PORT of the router (127.0.0.1:50051)")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the file; Prometheus wants it to end in .json")
    parser.add_argument("--job", default="baton", help="the name of the cluster in rules and dashboards (baton)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="write it again and again; else once")
    parser.add_argument("--baton", default="baton", help="the baton binary (baton)")
    options = parser.parse_args()
    if options.every is not None and options.every <= 0:
        parser.error("--every is more than 0")
    said = None
    while True:
        ports, error = admin_ports(options.baton, options.target)
        if error is None:
            write(options.out, options.job, ports)
        elif error != said:
            print(f"targets: {error}", file=sys.stderr, flush=True)
        if options.every is None:
            return 0 if error is None else 1
        said = error
        time.sleep(options.every)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
