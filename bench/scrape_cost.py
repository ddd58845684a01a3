#!/usr/bin/env python3
"""Measures what it costs a cluster that somebody scrapes its metrics.

    python3 bench/scrape_cost.py build/release/bin/baton
    python3 bench/scrape_cost.py build/release/bin/baton --streams 8 --pairs 24 --json >result.json

Windows without and with a scraper take turns, and every second pair begins with the scraper. In a window with it,
/metrics of every process is read --rate times a second, over connections that stay open and with the headers that
Prometheus sends. The table has, for each process, the CPU time of its threads as a share of one core in both kinds of
windows, and the median difference of a pair with its 95 % interval. The interval rests on the ranks of the differences
alone, and needs six pairs.

The cluster has served requests before, so that all series exist. With --streams N it serves N streams all the time. The
busiest threads of each worker, --threads of them, then count as kernel threads and are left out, because their time
follows the requests. A --rate above 1 makes a small cost visible: the table has the cost of one scrape a second.

The exit status is 0 when the upper end of every interval is below --limit, 1 when one is not, or when a measurement
failed, and 2 for wrong usage. Run it on an idle machine.
"""

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from core_time import busy_ns, cpu_of_processes_s  # noqa: E402
from paired_ratios import median_interval  # noqa: E402
from serving import BatonServer, load  # noqa: E402

SCRAPE_TIMEOUT_S = 5
WARMUP = ["--concurrency", 4, "--requests", 16, "--prompt-tokens", 128, "--output-tokens", 16, "--warmup", 0]
STREAM_TOKENS = ["--prompt-tokens", 64, "--output-tokens", 64, "--warmup", 0, "--requests", 1_000_000]
GENERATOR_NICENESS = 19
# As Prometheus 2.42 sends them.
HEADERS = {"Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
           "Accept-Encoding": "gzip", "User-Agent": "Prometheus/2.42.0", "X-Prometheus-Scrape-Timeout-Seconds": "1"}


def say(text):
    print(f"scrape_cost: {text}", file=sys.stderr, flush=True)


def processes_of(binary, server):
    """{pid: (role, admin address)} of the router and of the workers."""
    _, target = server.load_flags
    done = subprocess.run([binary, "status", "--target", target, "--json"], capture_output=True, text=True, check=True)
    status = json.loads(done.stdout)
    found = {str(worker["pid"]): (worker["role"], worker["admin"]) for worker in status["workers"]}
    return {str(status["router"]["pid"]): ("router", status["router"]["admin"]), **found}


class Scraper:
    """Reads /metrics of every address `rate` times a second, on a thread of its own, while it is entered."""

    def __init__(self, addresses, rate):
        self._connections = [http.client.HTTPConnection(address, timeout=SCRAPE_TIMEOUT_S) for address in addresses]
        self._interval_s = 1 / rate
        self._ended = threading.Event()
        self.scrapes = 0
        self.bytes = {}
        self.error = None

    def __enter__(self):
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        for connection in self._connections:
            connection.close()
        if self.error is not None:
            raise RuntimeError(f"a scrape failed: {self.error}")

    def _run(self):
        due = time.monotonic()
        try:
            while not self._ended.wait(max(0, due - time.monotonic())):
                for connection in self._connections:
                    self._scrape(connection)
                self.scrapes += 1
                due += self._interval_s
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            self.error = error

    def _scrape(self, connection):
        connection.request("GET", "/metrics", headers=HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200 or not body:
            raise RuntimeError(f"status {answer.status}")
        self.bytes[f"{connection.host}:{connection.port}"] = len(body)


@contextlib.contextmanager
def streams_of(binary, server, count, seed):
    """`count` streams at any time, by a load generator of its own."""
    if count == 0:
        yield
        return
    command = ["nice", "-n", GENERATOR_NICENESS, binary, "bench", "serve", "--json", *server.load_flags,
               "--concurrency", count, *STREAM_TOKENS, "--seed", seed]
    generator = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if generator.poll() is not None:
            raise RuntimeError("the load ended early")
    finally:
        generator.kill()
        generator.wait()


def measure_window(server, addresses, options):
    """{pid: share of a core}, and scrapes a second."""
    kernel_threads = options.threads if options.streams else 0
    scraper = Scraper(addresses, options.rate) if addresses else None
    with scraper or contextlib.nullcontext():
        begin, before = time.monotonic(), busy_ns(server.process.pid)
        time.sleep(options.window_s)
        after, elapsed_s = busy_ns(server.process.pid), time.monotonic() - begin
    cpu = cpu_of_processes_s(before, after, kernel_threads)
    shares = {pid: others_s / elapsed_s for pid, (_, others_s) in cpu.items()}
    return shares, scraper


def measure(options):
    """{pid: [(share without, share with), ...]}, {pid: (role, admin)}, {admin: bytes}"""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(
            BatonServer(options.binary, options.model, options.threads, options.roles,
                        Path(folder) / "serve.log")) as server:
        processes = processes_of(options.binary, server)
        load(options.binary, server, [*WARMUP, "--seed", options.seed], niceness=GENERATOR_NICENESS)
        pairs, sizes = {pid: [] for pid in processes}, {}
        addresses = [admin for _, admin in processes.values()]
        with streams_of(options.binary, server, options.streams, options.seed):
            for number in range(options.pairs):
                shares = {}
                for scraped in (False, True) if number % 2 == 0 else (True, False):
                    shares[scraped], scraper = measure_window(server, addresses if scraped else [], options)
                    sizes.update(scraper.bytes if scraper else {})
                for pid, of_pid in pairs.items():
                    of_pid.append((shares[False][pid], shares[True][pid]))
                say(f"pair {number + 1}/{options.pairs}")
    return pairs, processes, sizes


def summarize(pairs, processes, sizes, rate, limit_percent):
    """A row for each process; shares and costs in per cent of a core, the cost that of one scrape a second."""
    rows = []
    for pid, values in pairs.items():
        role, admin = processes[pid]
        costs = [100 * (scraped - alone) / rate for alone, scraped in values]
        low, high, is_interval = median_interval(costs)
        rows.append({"role": role, "bytes": sizes.get(admin), "cost": statistics.median(costs), "low": low, "high": high,
                     "is_interval_of_95": is_interval, "below_limit": is_interval and high < limit_percent,
                     "without": 100 * statistics.median(alone for alone, _ in values),
                     "with": 100 * statistics.median(scraped for _, scraped in values), "pairs": values})
    return rows


def table(rows, limit_percent):
    lines = [("process", "pairs", "without, %", "with, %", "cost of 1 scrape/s, % of a core", "bytes",
              f"below {limit_percent:g} %")]
    for row in rows:
        verdict = ("yes" if row["below_limit"] else "no") if row["is_interval_of_95"] else "too few pairs"
        lines.append((row["role"], str(len(row["pairs"])), f"{row['without']:.3f}", f"{row['with']:.3f}",
                      f"{row['cost']:.3f} [{row['low']:.3f}, {row['high']:.3f}]", str(row["bytes"]), verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the baton binary")
    parser.add_argument("--pairs", type=int, default=12, help="pairs of windows (12)")
    parser.add_argument("--window-s", type=float, default=5, help="seconds of a window (5)")
    parser.add_argument("--rate", type=float, default=1, help="scrapes a second (1)")
    parser.add_argument("--streams", type=int, default=0, help="streams that the cluster serves meanwhile (0)")
    parser.add_argument("--limit", type=float, default=0.5, help="per cent of a core that are too much (0.5)")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="a model file, directory or store name")
    parser.add_argument("--threads", type=int, default=1, help="kernel threads of each worker (1)")
    parser.add_argument("--roles", default="--prefill 1 --decode 1", type=str.split,
                        help='flags of serve that set the workers ("--prefill 1 --decode 1")')
    parser.add_argument("--seed", type=int, default=1, help="of the prompts (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all pairs, not the table")
    options = parser.parse_args()
    if options.pairs < 1 or options.threads < 1 or options.streams < 0 or min(options.window_s, options.rate) <= 0:
        parser.error("--pairs and --threads are at least 1, --streams at least 0, --window-s and --rate above 0")
    return options


def main():
    options = parse_arguments()
    try:
        rows = summarize(*measure(options), options.rate, options.limit)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        say(error)
        return 1
    if options.json:
        about = {key: getattr(options, key) for key in ("binary", "window_s", "rate", "streams", "threads", "limit")}
        print(json.dumps({**about, "processes": rows}))
    else:
        print(table(rows, options.limit))
    return 0 if all(row["below_limit"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
