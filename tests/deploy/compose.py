"""deploy/compose/compose.yaml as `docker compose` runs it, on the tests' container engine."""

import contextlib
import json
import pathlib
import subprocess
import sys

from cluster import SOURCE_DIR, wait_until

FILE = SOURCE_DIR / "deploy/compose/compose.yaml"
# scripts/test_requirements.txt brings it.
PROGRAM = pathlib.Path(sys.executable).parent / "docker-compose"


def rendered():
    """The file as `docker compose config` understands it, without a variable set."""
    result = subprocess.run([PROGRAM, "--file", FILE, "config", "--format", "json"], env={}, capture_output=True,
                            text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


class Project:
    """The services that run."""

    def __init__(self, engine, environment):
        self._engine, self._environment = engine, environment

    def compose(self, *words):
        """Runs `docker compose --file FILE` to its end and returns its stdout."""
        command = self._engine.enter(PROGRAM, "--file", FILE, *words)
        result = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=120,
                                check=False)
        assert result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"
        return result.stdout

    def container(self, service):
        return self._engine.container(f"baton-{service}-1")


@contextlib.contextmanager
def project(engine, **variables):
    """A Project without services yet."""
    socket = engine.folder / "engine.sock"
    server = subprocess.Popen(engine.enter("podman", "system", "service", "--time=0", f"unix://{socket}"),
                              env=engine.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(socket.exists, 20, "the engine's socket")
        one = Project(engine, {**engine.environment, "DOCKER_HOST": f"unix://{socket}", **variables})
        try:
            yield one
        finally:
            one.compose("down", "--volumes", "--timeout=5")
    finally:
        server.terminate()
        server.wait()
