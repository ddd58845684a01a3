"""The images of deploy/docker and the cluster of deploy/compose: built and run as written, by Podman.

No registry of images is within reach: a Debian that mmdebstrap makes stands for `debian:12-slim`. The stage `build`,
which compiles for minutes, runs only when BATON_FULL_TESTS is 1, and so does the download of a model; otherwise this
tree's own build gives the package.
"""

import configparser
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.parse

import pytest

import compose
import engine as engines
from cluster import BINARY, SOURCE_DIR, run_baton, wait_until
from installation import BUILD_DIR, make_package
from pages import blocks_of, shell_commands
from test_device import driver as fake_driver
from test_install import MODEL, STORE

PAGE = shell_commands("docs/containers.md", SOURCE_DIR)
DOCKERFILE = SOURCE_DIR / "deploy/docker/Dockerfile"
CUDA_DOCKERFILE = DOCKERFILE.with_name("Dockerfile.cuda")
IMAGE = "localhost/baton:latest"
CUDA_IMAGE = "localhost/baton:cuda"
CUDA_PLUGIN = BUILD_DIR / "lib/baton/libbaton_cuda.so"
# scripts/setup.sh unpacks Debian's.
PROMETHEUS = pathlib.Path(os.environ.get("BATON_DEPS_DIR") or engines.CACHE_DIR / "deps") / "prometheus/prometheus"
UID = 65532
MODEL_FILE = (STORE / f"{MODEL}.gguf").resolve()
MAX_ADDED_BYTES = 60 << 20
# UCX allocates smaller memory besides.
MIN_POOL_BYTES = 64 << 20
# A worker that asks before the name has the new address waits 5 s for the old one, and asks again.
RESTART_TIMEOUT_S = 20
LEFTOVERS = ["/var/lib/apt/lists", "/var/cache/apt", "/var/log", "/packages"]
# Podman would make places for temporary files, as Docker does not.
READ_ONLY = "--read-only-tmpfs=false"
HARDENED = ["--read-only", READ_ONLY, "--cap-drop=ALL", "--security-opt=no-new-privileges"]
FULL = os.environ.get("BATON_FULL_TESTS") == "1"
LEFT_OUT = ["pulling debian:12-slim and nvidia/cuda", "compiling beside nvidia/cuda", "Grafana, Jaeger and the published image of Prometheus"]
if not FULL:
    LEFT_OUT += ["compiling in the stages `build`", "downloading a model in the stages `fetch` and `model`"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    reason = engines.reason_for_none()
    if reason:
        pytest.skip(f"{reason}: no image is built and no container runs")
    with engines.container_engine(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """What stands for the stage `build`: its folder with the package."""
    folder = tmp_path_factory.mktemp("build")
    (folder / "packages").mkdir()
    make_package(folder / "packages")
    return folder


def build(engine, packages, tag, *words, **options):
    words = [f"--build-context=build={packages}", *words]
    engine.build(SOURCE_DIR, DOCKERFILE, tag, *words, BASE=engines.BASE, **options)


@pytest.fixture(scope="module")
def image(engine, packages):
    began = time.monotonic()
    build(engine, packages, IMAGE, REVISION="abc")
    return {"name": IMAGE, "build_s": time.monotonic() - began}


def generate(engine, *words):
    """By the client of this build, at the port that containers publish."""
    words = words or ("--prompt", "The capital of France is")
    command = engine.enter(BINARY, "generate", "--max-tokens", 4, *words)
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_hadolint_finds_no_fault_in_the_dockerfiles():
    program = pathlib.Path(sys.executable).parent / "hadolint"
    result = subprocess.run([program, *DOCKERFILE.parent.glob("Dockerfile*")], capture_output=True, text=True,
                            check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_what_is_built_from_is_every_file_of_the_tree_but_those_for_developers(engine, tmp_path):
    """The stage `build` without its commands: what it would copy."""
    stage = re.search(r"^FROM \S+ AS build\n(.*?)\nFROM", DOCKERFILE.read_text(), re.S | re.M)[1]
    copies = re.findall(r"^(?:WORKDIR|COPY) .*$", stage, re.M)
    assert len(copies) == 3
    (tmp_path / "Dockerfile").write_text("\n".join([f"FROM {engines.BASE}", *copies]) + "\n")
    engine.build(SOURCE_DIR, tmp_path / "Dockerfile", "localhost/context")
    listing = engine.podman("run", "--rm", "localhost/context", "find", "/src", "!", "-type", "d", "-printf", r"%P\n")
    copied = set(listing.stdout.splitlines())
    tracked = subprocess.run(["git", "ls-files"], cwd=SOURCE_DIR, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.splitlines()) - copied == {
        path for path in tracked.stdout.splitlines() if path.startswith(".")}
    assert not any(path.startswith((".git/", "build/")) for path in copied)


def test_the_image_says_what_it_is_and_holds_little_more_than_the_package(engine, image, packages, capsys):
    facts = engine.inspect("image", IMAGE)
    config = facts["Config"]
    assert config["User"] == f"{UID}:{UID}"
    assert config["Entrypoint"] == ["baton"]
    assert config["StopSignal"] == "SIGTERM"
    labels = config["Labels"]
    assert labels["org.opencontainers.image.revision"] == "abc"
    assert run_baton("version").stdout.splitlines()[0] == f"baton {labels['org.opencontainers.image.version']}"
    added_bytes = engine.image_bytes(IMAGE) - engine.image_bytes(engines.BASE)
    assert added_bytes < MAX_ADDED_BYTES

    new = installed(engine, IMAGE) - installed(engine, engines.BASE)
    assert "baton" in new
    assert all(name == "baton" or name.startswith("lib") for name in new), new
    left = engine.podman("run", "--rm", "--user=0", "--entrypoint=find", IMAGE, *LEFTOVERS, "-type", "f", "-size", "+0",
                         check=False)
    assert left.stdout == ""
    (package,) = (packages / "packages").glob("*.deb")
    with capsys.disabled():
        print(f"\nimage {engine.image_bytes(IMAGE) / 1e6:.0f} MB, {added_bytes / 1e6:.0f} MB of it over Debian's "
              f"{engine.image_bytes(engines.BASE) / 1e6:.0f}; package {package.stat().st_size / 1e6:.1f} MB; "
              f"built in {image['build_s']:.1f} s\nleft out: {'; '.join(LEFT_OUT)}")


def installed(engine, image):
    """The names of its Debian packages."""
    return set(engine.podman("run", "--rm", "--entrypoint=dpkg-query", image, "--show",
                             "--showformat=${Package}\n").stdout.split())


def command_of_page(begin):
    """The words of the page's command that begins so, without `docker`."""
    (found,) = [text for text in PAGE if text.startswith(f"docker {begin}")]
    return shlex.split(found)[1:]


def fill_volume(engine, name):
    engine.podman("volume", "create", name)
    shutil.copy(MODEL_FILE, engine.inspect("volume", name)["Mountpoint"])


def test_a_container_without_rights_serves_as_process_1_and_drains(engine, image, capsys):
    fill_volume(engine, "models")
    began = time.monotonic()
    run, *words = command_of_page("run --detach")
    engine.podman(run, READ_ONLY, *words)
    one = engine.container("baton")
    one.await_healthy()
    assert "Paris" in generate(engine)
    with capsys.disabled():
        print(f"\nthe container's first answer came {time.monotonic() - began:.1f} s after `run`")
    assert "Paris" in engine.podman(*command_of_page("exec baton")).stdout
    status = pathlib.Path(f"/proc/{one.pid}/status").read_text()
    assert pathlib.Path(f"/proc/{one.pid}/comm").read_text() == "baton\n"
    assert re.search(r"^NSpid:\t\d+\t1$", status, re.M)
    assert re.search(rf"^Uid:\t{UID}\t{UID}\t{UID}\t{UID}$", status, re.M)
    assert re.findall(r"^Cap(?:Prm|Eff|Bnd):\t(\S+)", status, re.M) == ["0" * 16] * 3
    # Process 1 inherits the processes whose parents have ended, and has to take their exit codes.
    one.execute("bash", "-c", "(sleep 0.01 &) ; exec true")
    wait_until(lambda: "(sleep) Z" not in one.execute("bash", "-c", "cat /proc/[0-9]*/stat").stdout, 10, "no zombies")
    engine.podman(*command_of_page("stop"))
    assert one.state["ExitCode"] == 0


def test_a_container_that_cannot_serve_is_unhealthy(engine, image):
    volume = f"--volume={MODEL_FILE}:/models/{MODEL_FILE.name}:ro"
    engine.podman("run", "--detach", "--name=alone", *HARDENED, volume, IMAGE, "router")
    alone = engine.container("alone")
    wait_until(lambda: "ready" in alone.log(), 20, "the router listens")
    assert not alone.is_healthy()
    # It lives all the same.
    alone.execute("baton", "health", "--service", "baton.v1.AdminService")
    unknown = alone.execute("baton", "health", "--service", "no.such.Service", check=False)
    assert unknown.returncode == 1
    assert "no service named no.such.Service" in unknown.stderr
    assert alone.stop() == 0


def test_an_image_with_a_model_needs_nothing_else(engine, packages, image, tmp_path):
    (tmp_path / "models").mkdir()
    os.link(MODEL_FILE, tmp_path / "models" / MODEL_FILE.name)
    build(engine, packages, "localhost/with-model", f"--build-context=model={tmp_path}", target="with-model")
    found = engine.podman("run", "--rm", "--network=none", *HARDENED, "localhost/with-model", "inspect", MODEL).stdout
    assert re.search(r"servable +yes", found)


def build_stage(dockerfile):
    """Its lines, which end with an empty one."""
    return re.search(r"^FROM \S+ AS build\n(.*?)\n\n", dockerfile.read_text(), re.S | re.M)[1]


def test_the_package_of_the_image_for_gpus_is_made_as_the_other_one_beside_a_toolkit():
    lines = build_stage(CUDA_DOCKERFILE).splitlines()
    mount = [line for line in lines if "from=toolkit" in line]
    assert mount == ["RUN --mount=type=bind,from=toolkit,source=/usr/local/cuda-13.0,target=/usr/local/cuda \\"]
    without = "\n".join(lines).replace(mount[0] + "\n    ", "RUN ")
    assert without == build_stage(DOCKERFILE)


def test_the_image_for_gpus_has_the_plug_in_of_its_program(engine, packages, image, tmp_path):
    engine.build(SOURCE_DIR, CUDA_DOCKERFILE, CUDA_IMAGE, f"--build-context=build={packages}", IMAGE=IMAGE, BASE=engines.BASE,
                 CUDA=engines.BASE)
    facts = engine.inspect("image", CUDA_IMAGE)["Config"]
    assert "NVIDIA_VISIBLE_DEVICES=all" in facts["Env"]
    assert facts["User"] == f"{UID}:{UID}"
    assert engine.podman("run", "--rm", CUDA_IMAGE, "version").stdout == run_baton("version").stdout
    left = engine.podman("run", "--rm", "--user=0", "--entrypoint=find", CUDA_IMAGE, *LEFTOVERS, "-type", "f", "-size", "+0",
                         check=False)
    assert left.stdout == ""
    if not CUDA_PLUGIN.exists():
        pytest.skip("this build has no plug-in: there was no nvcc")
    models = f"--volume={MODEL_FILE}:/models/{MODEL_FILE.name}:ro"
    command = ["run", "--rm", "--network=none", *HARDENED, models]
    words = [CUDA_IMAGE, "bench", "engine", "--device", "cuda"]
    alone = engine.podman(*command, *words, check=False)
    assert alone.returncode == 1 and "no CUDA driver on this machine" in alone.stderr
    # The plug-in was loaded and is of this build, if it says what a driver lacks.
    fake_driver(tmp_path)
    tmp_path.chmod(0o755)
    beside = engine.podman(*command, f"--volume={tmp_path}:/driver:ro", "--env=LD_LIBRARY_PATH=/driver", *words, check=False)
    assert beside.returncode == 1 and "the CUDA driver is too old: it has no cuDriverGetVersion" in beside.stderr


@pytest.mark.skipif(not FULL, reason="it compiles and downloads: BATON_FULL_TESTS=1")
def test_every_stage_builds_from_a_fresh_debian(engine):
    # Where a network has a certificate authority of its own, pip has to know it.
    authority = pathlib.Path(os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")).resolve()
    trust = [f"--volume={authority}:/run/authority.crt:ro", "--env=PIP_CERT=/run/authority.crt"]
    engine.build(SOURCE_DIR, DOCKERFILE, "localhost/full", *trust, target="with-model", BASE=engines.BASE,
                 SOURCE_DATE_EPOCH="1700000000")
    found = engine.podman("run", "--rm", "--network=none", *HARDENED, "localhost/full", "inspect", MODEL).stdout
    assert re.search(r"servable +yes", found)


def baton_services(rendered):
    return {name: service for name, service in rendered["services"].items() if "build" in service}


def test_every_container_of_the_compose_file_has_as_few_rights_as_can_be():
    rendered = compose.rendered()
    for name, service in rendered["services"].items():
        assert service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"], name
        assert "privileged" not in service and "pid" not in service, name
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name
    for name, service in baton_services(rendered).items():
        assert service["read_only"], name
        assert service["stop_grace_period"] == "30s" or name == "model", name
        writable = [volume["target"] for volume in service.get("volumes", []) if not volume.get("read_only")]
        assert writable == (["/models"] if name == "model" else []), name


def test_the_compose_files_processes_and_watchers_name_what_is_there():
    rendered = compose.rendered()
    for name, service in baton_services(rendered).items():
        if service.get("entrypoint"):
            continue
        role, *words = service["command"]
        known = run_baton(role, "--help").stdout
        for flag in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", known), f"{name}: {flag}"
    for name, service in rendered["services"].items():
        for volume in service.get("volumes", []):
            source = volume["source"]
            assert volume["type"] == "volume" or pathlib.Path(source).exists(), f"{name}: {source}"


def test_the_pages_unit_brings_the_compose_files_cluster_up_whenever_docker_starts():
    (block,) = [block for block in blocks_of("docs/containers.md", SOURCE_DIR) if block.language == "ini"]
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(block.text)
    # `Requires` is what makes it start again with Docker, and `RemainAfterExit` what makes systemd remember it until then.
    assert unit["Unit"]["After"] == unit["Unit"]["Requires"] == "docker.service"
    assert (unit["Service"]["Type"], unit["Service"]["RemainAfterExit"]) == ("oneshot", "yes")
    words = shlex.split(unit["Service"]["ExecStart"])
    file = words[words.index("--file") + 1]
    assert (SOURCE_DIR / file.removeprefix("/PATH/")).samefile(compose.FILE)
    assert words[:2] == ["docker", "compose"] and words[4:] == ["up", "--detach", "--wait"]


def test_compose_runs_a_cluster_whose_kv_goes_through_shared_memory(engine, image):
    up, status, answer, down = [shlex.split(text)[4:] for text in PAGE if text.startswith("docker compose")]
    fill_volume(engine, "baton_models")
    with compose.project(engine, BATON_IMAGE=IMAGE, BATON_FETCH_IMAGE=IMAGE) as project:
        # The images are there; those of the watchers are not.
        project.compose(*(word for word in up if word != "--build"), "router", "prefill", "decode")
        engine.pin_bridges()
        services = [project.container(name) for name in ("router", "prefill", "decode")]
        for service in services:
            service.await_healthy()
        assert "prefill:50061" in project.compose(*status)
        assert project.compose(*answer)
        assert "Paris" in generate(engine)
        assert users_of_pool(engine, services[1]) == 2

        scrape(engine, ["router:9464", "prefill:9464", "decode:9464"])

        # A worker that starts anew has another address, and finds the same shared memory.
        for name, service in (("prefill", services[1]), ("router", services[0])):
            project.compose("restart", name)
            wait_until(lambda: service.is_healthy() and services[0].is_healthy(), RESTART_TIMEOUT_S, f"a new {name}")
            generate(engine, "--prompt", f"The {name} is new")
            assert users_of_pool(engine, services[1]) == 2
        project.compose("stop")
        assert [service.state["ExitCode"] for service in services] == [0, 0, 0]
        project.compose(*down)


def get(engine, url):
    """The JSON that a published port answers with; None while it does not."""
    script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    result = subprocess.run(engine.enter(sys.executable, "-c", script, url), capture_output=True, text=True, check=False)
    return json.loads(result.stdout)["data"] if result.returncode == 0 else None


def scrape(engine, targets):
    """Debian's Prometheus, with the command and the files of the compose file's, scrapes all of them and has the rules."""
    service = compose.rendered()["services"]["prometheus"]
    files = [f"--volume={volume['source']}:{volume['target']}:ro" for volume in service["volumes"]
             if volume["type"] == "bind"]
    engine.podman("run", "--detach", "--name=prometheus", "--network=baton_default", "--publish=127.0.0.1:9090:9090",
                  *HARDENED, "--user=65534", "--tmpfs=/prometheus:mode=1777", f"--volume={PROMETHEUS}:/bin/prometheus:ro",
                  "--entrypoint=/bin/prometheus", *files, engines.BASE, *service["command"])
    up = "http://127.0.0.1:9090/api/v1/query?query=" + urllib.parse.quote('up{job="baton"} == 1')

    def scraped():
        series = (get(engine, up) or {"result": []})["result"]
        return {one["metric"]["instance"] for one in series} == set(targets)

    wait_until(scraped, 30, f"Prometheus scrapes {targets}: {engine.container('prometheus').log()}")
    groups = get(engine, "http://127.0.0.1:9090/api/v1/rules")["groups"]
    assert groups
    engine.podman("rm", "--force", "--time=0", "prometheus")


def users_of_pool(engine, container):
    """How many processes have the KV pool of the container's process mapped."""
    command = engine.enter("nsenter", f"--target={container.pid}", "--ipc", "cat", "/proc/sysvipc/shm")
    table = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in table.splitlines()[1:]]
    (users,) = [int(row[6]) for row in rows if int(row[4]) == container.pid and int(row[3]) > MIN_POOL_BYTES]
    return users
