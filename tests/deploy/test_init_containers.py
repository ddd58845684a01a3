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


def init_container(values):
    (container,) = {str(pod.spec["initContainers"]): pod.spec["initContainers"][0] for pod in Release(values).serving_pods
                    }.values()
    return container


def run(container, **variables):
    """Runs it with its environment, of which `variables` are changed."""
    environment = {one["name"]: one["value"] for one in container["env"]} | variables
    return subprocess.run(container["command"], env={"PATH": os.environ["PATH"], **environment}, capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=False)


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
    target = {one["name"]: one["value"] for one in container["env"]}["TARGET"]
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


def test_a_file_that_does_not_exist_fails_and_says_so(server, tmp_path):
    _, fetch = download(server, tmp_path, path="/missing/model.gguf")
    result = fetch()
    assert result.returncode != 0 and "404" in result.stderr
    assert os.listdir(tmp_path) == []


def test_an_image_of_a_model_is_copied_with_what_its_links_name(tmp_path):
    values = {"model": {"source": "image", "file": "m", "image": {"repository": "models/m", "tag": "1"}}}
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "m").mkdir(parents=True)
    (source / "blob").write_bytes(CONTENT)
    (source / "m/model.safetensors").symlink_to("../blob")
    target.mkdir()
    result = run(init_container(values), SOURCE=str(source), TARGET=str(target))
    assert result.returncode == 0, result.stderr
    copied = target / "m/model.safetensors"
    assert copied.read_bytes() == CONTENT and not copied.is_symlink()


def test_a_model_is_fetched_into_the_folder_that_the_server_reads(tmp_path):
    release = Release({"model": {"fetch": {"name": "gemma-3-270m", "env": [{"name": "PIP_INDEX_URL", "value": "http://x"}]}}})
    for pod in release.serving_pods:
        (container,) = pod.spec["initContainers"]
        environment = {one["name"]: one["value"] for one in container["env"]}
        assert container["command"] == ["baton", "fetch-model", "gemma-3-270m"]
        assert pod.flag("model") == f"{environment['BATON_MODEL_STORE']}/gemma-3-270m.gguf"
        assert environment["PIP_INDEX_URL"] == "http://x"
        # The rest of the container's files cannot be written.
        assert environment["HOME"] in {mount["mountPath"] for mount in container["volumeMounts"]}
        # Baton's own image has no pip.
        assert container["image"] == pod.main["image"] + "-fetch"
