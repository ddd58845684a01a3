"""The init containers that bring a model: their commands are run as rendered, with paths of this machine."""

import functools
import hashlib
import http.server
import os
import subprocess
import threading

import pytest

from rendering import Release

CONTENT = b"a model\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
TIMEOUT_S = 30
POLL_S = 0.02
POD = "demo-baton-decode-5d8f7c9b6-x2x4k"


def init_container(values):
    (container,) = {str(pod.spec["initContainers"]): pod.spec["initContainers"][0] for pod in Release(values).serving_pods
                    }.values()
    return container


def environment_of(container):
    """With the name of a pod for what Kubernetes fills in."""
    return {one["name"]: one.get("value", POD) for one in container["env"]}


def run(container, **variables):
    """Runs it with its environment, of which `variables` are changed."""
    environment = {"PATH": os.environ["PATH"], **environment_of(container), **variables}
    return subprocess.run(container["command"], env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)


@pytest.fixture
def server(tmp_path):
    """Serves CONTENT under any name; `requests` are the paths that it was asked for."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.requests.append(self.path)
            found = "missing" not in self.path
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(CONTENT) if found else 0))
            self.end_headers()
            self.wfile.write(CONTENT if found else b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.requests = []
        thread = threading.Thread(target=running.serve_forever, args=(POLL_S,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def download(server, folder, path="/folder/model.gguf?version=3", sha256=SHA256):
    url = f"http://127.0.0.1:{server.server_port}{path}"
    container = init_container({"model": {"source": "download", "download": {"url": url, "sha256": sha256}}})
    target = environment_of(container)["TARGET"]
    assert target == "/models/model.gguf"
    here = folder / os.path.basename(target)
    return here, functools.partial(run, container, TARGET=str(here))


def test_a_download_that_is_right_is_the_model(server, tmp_path):
    target, fetch = download(server, tmp_path)
    result = fetch()
    assert result.returncode == 0, result.stderr
    assert target.read_bytes() == CONTENT and os.listdir(tmp_path) == [target.name]


def test_a_container_that_starts_again_downloads_nothing_that_is_there(server, tmp_path):
    _, fetch = download(server, tmp_path)
    assert fetch().returncode == 0 and fetch().returncode == 0
    assert len(server.requests) == 1


def test_a_download_with_another_digest_is_not_kept(server, tmp_path):
    _, fetch = download(server, tmp_path, sha256="0" * 64)
    assert fetch().returncode != 0
    assert os.listdir(tmp_path) == []


def test_a_damaged_file_is_downloaded_anew(server, tmp_path):
    target, fetch = download(server, tmp_path)
    target.write_bytes(CONTENT[:-1])
    assert fetch().returncode == 0 and target.read_bytes() == CONTENT


def test_who_reads_a_file_that_is_downloaded_anew_keeps_the_old_bytes(server, tmp_path):
    target, fetch = download(server, tmp_path)
    target.write_bytes(b"damaged")
    with open(target, "rb") as reader:
        assert fetch().returncode == 0
        assert reader.read() == b"damaged" and target.read_bytes() == CONTENT


def test_pods_that_share_a_volume_write_to_files_of_their_own(server, tmp_path):
    target, fetch = download(server, tmp_path)
    other = target.with_name(f"{target.name}.other-pod")
    other.write_bytes(b"half")
    # What a container of this pod left that was killed.
    target.with_name(f"{target.name}.{POD}").write_bytes(b"half")
    assert fetch().returncode == 0
    assert sorted(tmp_path.iterdir()) == [target, other] and other.read_bytes() == b"half"


def test_a_file_that_does_not_exist_fails_and_says_so(server, tmp_path):
    _, fetch = download(server, tmp_path, path="/missing/model.gguf")
    result = fetch()
    assert result.returncode != 0 and "404" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.fixture
def image(tmp_path):
    """Folders for an image of a model and for the volume, and what copies one to the other."""
    values = {"model": {"source": "image", "file": "m", "image": {"repository": "models/m", "tag": "1"}}}
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "m/deep er").mkdir(parents=True)
    (source / "blob").write_bytes(CONTENT)
    (source / "m/.hidden").touch()
    (source / "m/deep er/config.json").write_text("{}")
    (source / "m/model.safetensors").symlink_to("../blob")
    target.mkdir()
    return source, target, functools.partial(run, init_container(values), SOURCE=str(source), TARGET=str(target))


def test_an_image_of_a_model_is_copied_with_what_its_links_name(image):
    source, target, copy = image
    result = copy()
    assert result.returncode == 0, result.stderr
    copied = target / "m/model.safetensors"
    assert copied.read_bytes() == CONTENT and not copied.is_symlink()
    below = lambda folder: sorted(path.relative_to(folder) for path in folder.rglob("*"))
    assert below(target) == below(source)


def test_who_reads_a_file_that_is_copied_again_keeps_the_old_bytes(image):
    _, target, copy = image
    assert copy().returncode == 0
    (target / "blob").write_bytes(b"old")
    with open(target / "blob", "rb") as reader:
        assert copy().returncode == 0
        assert reader.read() == b"old" and (target / "blob").read_bytes() == CONTENT


def test_a_copy_that_fails_says_so_and_leaves_no_part(image):
    source, target, copy = image
    (source / "m/model.safetensors").unlink()
    (source / "m/model.safetensors").symlink_to("nothing")
    result = copy()
    assert result.returncode != 0 and "model.safetensors" in result.stderr
    assert not list(target.rglob(f"*{POD}*"))


def test_an_image_without_the_folder_of_the_model_fails_and_says_so(image):
    _, _, copy = image
    result = copy(SOURCE="/no/such/folder")
    assert result.returncode != 0 and "/no/such/folder" in result.stderr


def test_a_model_is_fetched_into_the_folder_that_the_server_reads(tmp_path):
    release = Release({"model": {"fetch": {"name": "gemma-3-270m", "env": [{"name": "PIP_INDEX_URL", "value": "http://x"}]}}})
    for pod in release.serving_pods:
        (container,) = pod.spec["initContainers"]
        environment = environment_of(container)
        assert container["command"] == ["baton", "fetch-model", "gemma-3-270m"]
        assert pod.flag("model") == f"{environment['BATON_MODEL_STORE']}/gemma-3-270m.gguf"
        assert environment["PIP_INDEX_URL"] == "http://x"
        # The rest of the container's files cannot be written.
        assert environment["HOME"] in {mount["mountPath"] for mount in container["volumeMounts"]}
        # Baton's own image has no pip.
        assert container["image"] == pod.main["image"] + "-fetch"
