"""Debian's Prometheus as a fixture, and promtool as a function. Nothing of the package's own service is used."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

from cluster import wait_until

# Where scripts/setup.sh unpacked both programs.
FOLDER = pathlib.Path(os.environ["BATON_PROMETHEUS_DIR"])
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
QUERY_TIMEOUT_S = 30
LISTENING = re.compile(r'msg="Listening on" address=(\S+)')
READY = 'msg="Server is ready to receive web requests."'


def promtool(*args, stdin=None):
    """The exit code and everything that it printed."""
    done = subprocess.run([FOLDER / "promtool", *map(str, args)], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


class Prometheus:
    """Scrapes every second what the file_sd files `targets` name, and evaluates the rules as often."""

    def __init__(self, folder, targets, rules):
        self.folder = pathlib.Path(folder)
        self.config = self.folder / "prometheus.yaml"
        # JSON is YAML.
        self.config.write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{"job_name": "targets", "file_sd_configs": [{"files": [str(targets)],
                                                                           "refresh_interval": "1s"}]}]}))
        self.address = None
        self._log = tempfile.TemporaryFile(mode="w+")
        self._lines = []
        self._ready = threading.Event()

    def __enter__(self):
        self.process = subprocess.Popen(
            [FOLDER / "prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'data'}",
             "--web.listen-address=127.0.0.1:0", "--log.format=logfmt"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            assert self._ready.wait(START_TIMEOUT_S), f"Prometheus is not ready:\n{self.log()}"
            assert self.process.poll() is None and self.address, f"Prometheus ended:\n{self.log()}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, exc_type, exc, traceback):
        self._end()
        if exc_type is not None:
            print(f"prometheus said:\n{self.log()}")

    def _read(self):
        for line in self.process.stderr:
            self._lines.append(line)
            found = LISTENING.search(line)
            self.address = found[1] if found else self.address
            if READY in line:
                self._ready.set()
        self._ready.set()

    def _end(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        self.process.stderr.close()

    def log(self):
        return "".join(self._lines[-100:])

    def api(self, path, **parameters):
        """The data of an answer of the HTTP API. AssertionError says what Prometheus did not like."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            url = f"http://{self.address}/api/v1/{path}?{query}"
            with urllib.request.urlopen(url, timeout=QUERY_TIMEOUT_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from None

    def query(self, expr):
        """The series of an instant query: [(labels, value), ...]."""
        data = self.api("query", query=expr)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    def wait_for_samples(self, targets, samples, timeout_s):
        """Until each of `targets` targets has been scraped `samples` times."""
        def scraped():
            counts = [value for _, value in self.query(f"sum_over_time(up[{int(timeout_s)}s])")]
            return len(counts) == targets and min(counts) >= samples

        wait_until(scraped, timeout_s, f"{samples} scrapes of each of {targets} targets")

    def rules(self):
        """Every rule as the rules API has it, with its state and its last error."""
        return [rule for group in self.api("rules")["groups"] for rule in group["rules"]]
