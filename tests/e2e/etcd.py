"""Debian's etcd as a process of a test, and its own client to look at what it holds."""

import json
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading

from cluster import wait_until

CACHE_DIR = os.environ.get("BATON_CACHE_DIR") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                                             pathlib.Path.home() / ".cache") / "baton"
FOLDER = pathlib.Path(os.environ.get("BATON_DEPS_DIR") or pathlib.Path(CACHE_DIR) / "deps") / "etcd"
START_TIMEOUT_S = 30
PREFIX = "/baton"


class Etcd:
    """`with Etcd() as etcd: ... etcd.target`. `files` are an Issued of certificates.py: TLS, and clients need one too."""

    def __init__(self, files=None):
        self.files = files
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="baton-etcd-"))
        self.target = None
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self._folder)

    def start(self):
        """At any free port, and later at the same one."""
        scheme = "https" if self.files else "http"
        clients = f"{scheme}://{self.target or '127.0.0.1:0'}"
        peers = "http://127.0.0.1:0"
        command = [FOLDER / "etcd", "--data-dir", self._folder / "data", "--logger", "zap", "--log-outputs", "stderr",
                   "--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                   "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"]
        if self.files:
            command += ["--cert-file", self.files.cert, "--key-file", self.files.key, "--client-cert-auth",
                        "--trusted-ca-file", self.files.ca]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        serving = queue.Queue()
        # It reads to the end, so that etcd never blocks on a full pipe.
        threading.Thread(target=self._read_log, args=(self.process.stderr, serving), daemon=True).start()
        self.target = serving.get(timeout=START_TIMEOUT_S)

    @staticmethod
    def _read_log(log, serving):
        for line in log:
            if '"msg":"serving client traffic' in line:
                serving.put(json.loads(line)["address"])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def forget_everything(self):
        """While it does not run."""
        shutil.rmtree(self._folder / "data")

    def _control(self, *args):
        files = []
        if self.files:
            files = ["--cacert", self.files.ca, "--cert", self.files.cert, "--key", self.files.key]
        scheme = "https" if self.files else "http"
        result = subprocess.run([str(arg) for arg in (FOLDER / "etcdctl", "--endpoints", f"{scheme}://{self.target}",
                                                      *files, *args)],
                                env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, check=False,
                                timeout=START_TIMEOUT_S)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def put(self, key, value):
        self._control("put", "--", key, value)

    def delete(self, key):
        self._control("del", key)

    def keys(self, kind):
        """Of `routers` or `workers`."""
        return self._control("get", "--prefix", f"{PREFIX}/{kind}/", "--keys-only").split()

    def entries(self, kind):
        """Values by key."""
        return {key: self._control("get", "--print-value-only", key).strip() for key in self.keys(kind)}

    def await_keys(self, kind, count, timeout_s):
        return wait_until(lambda: len(keys := self.keys(kind)) == count and keys, timeout_s, f"{count} {kind} in etcd")
