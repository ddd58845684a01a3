"""A local cluster as a test fixture, and the command line as a function.

Every process ends with its test: the cluster by SIGTERM to its own pid, and with exit code 0 or the test fails.
"""

import contextlib
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

BINARY = os.environ.get("BATON_BINARY", "")
SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 120
# The drain time-out is 25 s, and the supervisor gives the router and then the workers 5 s more each.
STOP_TIMEOUT_S = 60
COMMAND_TIMEOUT_S = 120
# A request ends so soon after its client has left: within a step of the engine, and a heartbeat later the status shows it.
# Outside of the full form the machine may have a loaded neighbour.
LEFT_TIMEOUT_S = 1 if os.environ.get("BATON_FULL_TESTS") == "1" else 5
LOG_BYTES = 64 << 10
# More than any test lets a cluster write.
ALL_LOG_BYTES = 64 << 20
# Between two looks at a condition, at least and at most.
POLL_S, MOST_POLL_S = 0.02, 1
# The environment in which `--transport rdma` needs no adapter.
RDMA_OVER_LOOPBACK = {"BATON_TEST_RDMA_NETWORK": "tcp", "UCX_NET_DEVICES": "lo"}


def wait_until(condition, timeout_s, what):
    """Polls until condition() is truthy and returns its value; AssertionError after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        assert now < deadline, f"not within {timeout_s} s: {what}"
        # A condition that runs a command takes a core from the cluster, so no more than a third of the time is spent on it.
        pause_s = min(max(POLL_S, 2 * (now - began)), MOST_POLL_S)
        time.sleep(min(pause_s, deadline - now))


def run_baton(*args, env=None, stdin=None, timeout_s=COMMAND_TIMEOUT_S):
    """Runs a subcommand to its end. `stdin` is bytes; stdout and stderr of the result are text."""
    result = subprocess.run([BINARY, *map(str, args)], input=stdin or b"", capture_output=True,
                            env={**os.environ, **(env or {})}, timeout=timeout_s, check=False)
    result.stdout = result.stdout.decode("utf-8", "replace")
    result.stderr = result.stderr.decode("utf-8", "replace")
    return result


def tokenize_prose(*flags):
    """Token ids of a few thousand tokens of ordinary English."""
    result = run_baton("tokenize", "--file", SOURCE_DIR / "tests/data/prose/english.txt", "--json", *flags)
    assert result.returncode == 0, result.stderr
    ids = json.loads(result.stdout)["token_ids"]
    assert len(ids) > 3_000
    return ids


def is_running(pid):
    """False also for a zombie, which has ended although its parent has not reaped it yet."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def children_of(pid):
    """Pids of the live children of a process."""
    children = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] not in ("Z", "X"):
            children.append(int(entry.name))
    return children


@contextlib.contextmanager
def stopped(pid):
    """The process does not run in the body; it goes on whatever happens there."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Cluster:
    """`baton serve` with the given arguments: `with Cluster("--mixed", 1) as cluster: ... cluster.target`."""

    live = []

    def __init__(self, *args, env=None, grpc_port=0):
        port = [] if grpc_port is None else ["--grpc-port", grpc_port]
        self.command = [BINARY, "serve", *map(str, [*port, *args])]
        self.env = {**os.environ, **(env or {})}
        # Flags with which `baton status` reaches it.
        self.client_flags = ()
        self.target = self.cluster_target = self.admin = self.http = None
        # A second SIGTERM would cut what is running.
        self.ends = False
        # Otherwise the test calls await_ready.
        self.awaits_ready = True
        self._log = tempfile.TemporaryFile(mode="w+b")
        self._ready = queue.Queue()

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self._log, env=self.env)
        Cluster.live.append(self)
        # The thread reads to the end, so that the server never blocks on a full pipe.
        self._reader = threading.Thread(target=self._read_stdout, daemon=True)
        self._reader.start()
        try:
            if self.awaits_ready:
                self.await_ready()
        except BaseException:
            self.process.kill()
            self._close()
            raise
        return self

    def __exit__(self, exc_type, exc, traceback):
        try:
            exit_code = self.stop()
        finally:
            log = self.log()
            self._close()
        if exc_type is not None:
            print(f"{' '.join(self.command)} said:\n{log}")
        else:
            assert exit_code == 0, f"the cluster ended with {exit_code}:\n{log}"

    def _read_stdout(self):
        for line in self.process.stdout:
            self._ready.put(line.decode())
        self._ready.put(None)

    def await_ready(self):
        ready = self._wait_ready()
        self.target = ready["grpc"]
        # Of the router; None without an admin port.
        self.admin = ready.get("admin")
        # Of the router, for clients of OpenAI's API; None where it has none.
        self.http = ready.get("http")
        # Where workers join.
        self.cluster_target = ready.get("cluster", self.target)

    def said_ready(self):
        """Before await_ready."""
        return not self._ready.empty()

    def _wait_ready(self):
        try:
            line = self._ready.get(timeout=READY_TIMEOUT_S)
        except queue.Empty:
            line = None
        assert line is not None and line.startswith("ready "), f"no ready line but {line!r}:\n{self.log()}"
        return json.loads(line.removeprefix("ready "))

    def _close(self):
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self._log.close()
        Cluster.live.remove(self)

    @property
    def pid(self):
        return self.process.pid

    def log(self, most_bytes=LOG_BYTES):
        """The end of what the server wrote to stderr."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), most_bytes, max(0, size - most_bytes)).decode("utf-8", "replace")

    def signal(self, number):
        self.ends = self.ends or number in (signal.SIGTERM, signal.SIGINT)
        self.process.send_signal(number)

    def stop(self):
        """Sends SIGTERM, unless the test has sent one, and returns the exit code. A process that has already ended keeps
        its own code."""
        if self.process.poll() is None and not self.ends:
            self.signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"did not drain in {STOP_TIMEOUT_S} s:\n{self.log()}") from None

    def kill(self):
        """Sends SIGKILL to the supervisor alone, for tests of what its children do then."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.process.returncode = 0

    def status(self):
        result = run_baton("status", "--target", self.target, "--json", *self.client_flags)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def workers(self):
        return self.status()["workers"]

    def await_idle(self, timeout_s=LEFT_TIMEOUT_S):
        """Until no worker runs a request or holds a block of one."""
        wait_until(lambda: not any(worker["used_blocks"] or worker["running"] for worker in self.workers()), timeout_s,
                   "the end of all requests")

    def decoders_count(self, name, **labels):
        """The sum of a counter over all workers that only decode, and over the series that have these labels."""
        total = 0
        for worker in self.workers():
            if worker["role"] == "decode":
                with urllib.request.urlopen(f"http://{worker['admin']}/metrics", timeout=5) as page:
                    series = re.findall(rf"^{name}(?:{{(.*)}})? (\d+)", page.read().decode(), re.MULTILINE)
                total += sum(int(value) for found, value in series
                             if all(f'{label}="{wanted}"' in found for label, wanted in labels.items()))
        return total

    def pid_of(self, role):
        """Pid of the router, or of a worker of a role that only one has."""
        workers = {worker["pid"]: worker["role"] for worker in self.workers()}
        if role == "router":
            (pid,) = set(children_of(self.pid)) - set(workers)
        else:
            (pid,) = (pid for pid, its_role in workers.items() if its_role == role)
        return pid

    def restart_router(self, timeout_s, in_order=False):
        """Kills it, or tells it to end, and returns when it is back, as another process and with all its workers."""
        pid = self.pid_of("router")
        workers = len(self.workers())
        os.kill(pid, signal.SIGTERM if in_order else signal.SIGKILL)

        def is_back():
            if is_running(pid):
                return False
            result = run_baton("status", "--target", self.target, "--json")
            return result.returncode == 0 and len(json.loads(result.stdout)["workers"]) >= workers

        wait_until(is_back, timeout_s, "the router and its workers")


def await_workers(router, count, timeout_s=60, gone=None):
    """Until so many workers serve at the router, none of them with the pid `gone`, and no other worker is there."""
    def all_serve():
        workers = router.workers()
        return [worker["state"] for worker in workers] == ["serving"] * count and gone not in {w["pid"] for w in workers}

    wait_until(all_serve, timeout_s, f"{count} workers that serve" + (f", none of them {gone}" if gone else ""))


def kill_busy(cluster, role):
    """Kills a worker of this role that holds blocks, once there is one."""
    victims = []
    wait_until(lambda: victims.extend(worker["pid"] for worker in cluster.workers()
                                      if worker["role"] == role and worker["used_blocks"]) or victims,
               60, f"a busy {role} worker in the status")
    os.kill(victims[0], signal.SIGKILL)


class RoleProcess(Cluster):
    """One role as a process of its own, ended like a cluster."""

    def __init__(self, role, *args, awaits_ready=True, env=None):
        super().__init__(env=env)
        self.command = [BINARY, role, *map(str, args)]
        self.awaits_ready = awaits_ready
