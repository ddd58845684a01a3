"""A router, a prefill and a decode worker that exist only as /metrics, drawn from the tables of docs/metrics.md."""

import http.server
import itertools
import random
import threading
import time

import metrics_page

CHOSEN = {"model_name": ["smol"], "model": ["smol"], "version": ["0.1.0"], "numerics": ["exact"], "transport": ["shm"],
          "block_size": ["16"], "num_gpu_blocks": ["1456"], "worker": ["127.0.0.1:7001", "127.0.0.1:7002"],
          "source": ["127.0.0.1:7001"], "target": ["127.0.0.1:7002"]}
BUCKETS = [.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10]


class Fake:
    def __init__(self, role, seed):
        self.role, self.draw = role, random.Random(seed)
        self.start, self.state = time.time(), {}
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = page.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = "127.0.0.1:%d" % self.server.server_port

    def values(self, metric, label):
        if label == "role":
            if "worker" in metric.labels or metric.name.startswith("baton_worker"):
                return ["prefill", "decode"]
            return [self.role]
        allowed = metric.labels[label]
        return sorted(allowed) if allowed is not None else CHOSEN[label]

    def text(self):
        lines = []
        for metric in metrics_page.metrics().values():
            if self.role not in metric.roles:
                continue
            lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.type}"]
            for values in itertools.product(*(self.values(metric, label) for label in metric.labels)):
                labels = dict(zip(metric.labels, values))
                lines += self.series(metric, labels)
        return "\n".join(lines) + "\n"

    def series(self, metric, labels):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        key = (metric.name, text)
        show = lambda suffix, more, value: f"{metric.name}{suffix}{{{','.join(filter(None, (text, more)))}}} {value}"
        bad = {"failed", "digest", "read", "lease", "source", "dropped"} & set(labels.values()) or "refus" in metric.name
        if metric.name == "process_start_time_seconds":
            return [show("", "", self.start)]
        if metric.type == "counter":
            self.state[key] = self.state.get(key, 0) + (0 if bad else self.draw.randrange(1, 20))
            return [show("", "", self.state[key])]
        if metric.type == "gauge":
            one = metric.unit in ("1", "0 or 1")
            return [show("", "", 1 if one else 0 if "orphan" in metric.name else round(self.draw.uniform(0.1, 0.9), 3))]
        counts, total = self.state.setdefault(key, [[0] * (len(BUCKETS) + 1), 0.0])
        for _ in range(5):
            value = self.draw.lognormvariate(-3, 1)
            counts[sum(value > edge for edge in BUCKETS)] += 1
            total += value
        self.state[key] = [counts, total]
        cumulated = list(itertools.accumulate(counts))
        return [*(show("_bucket", f'le="{edge}"', count) for edge, count in zip([*BUCKETS, "+Inf"], cumulated)),
                show("_sum", "", total), show("_count", "", cumulated[-1])]
