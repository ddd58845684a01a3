"""What the peers need: Python environments, llama.cpp built from source, copies of the model that they can read.

Everything lies below ${BATON_CACHE_DIR:-~/.cache/baton}/peers and is made once.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(
    os.environ.get("BATON_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "baton"
)
PEERS = CACHE / "peers"
# The source of llama.cpp comes from its newest Python package and is built for this processor.
LLAMA_CPP = "llama_cpp_python==0.3.36"
LLAMA_TARGETS = ["llama-batched-bench", "llama-server"]
LLAMA_OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
]


def say(text):
    print(f"peers: {text}", file=sys.stderr, flush=True)


def run(command):
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr)


def make_environment(name):
    """A virtual environment that holds what requirements_NAME.txt asks for; returns its Python.

    Packages after the line `# without dependencies` are installed without theirs, which are not on the index.
    """
    wanted, folder = HERE / f"requirements_{name}.txt", PEERS / name
    stamp, python = folder / ".requirements", folder / "bin/python"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return python
    say(f"creating the environment of {name}")
    shutil.rmtree(folder, ignore_errors=True)
    run([sys.executable, "-m", "venv", folder])
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    whole, _, bare = wanted.read_text().partition("# without dependencies\n")
    if bare:
        run([*install, "--no-deps", *bare.split()])
    run([*install, *whole.split()])
    stamp.write_text(wanted.read_text())
    return python


def build_llama_cpp():
    """The folder of llama.cpp's programs, and its version."""
    folder = PEERS / "llamacpp"
    build = folder / "build"
    stamp = build / ".built"
    if not (stamp.exists() and stamp.read_text() == LLAMA_CPP):
        say("building llama.cpp for this processor; this takes a quarter of an hour")
        folder.mkdir(parents=True, exist_ok=True)
        source = unpack_llama_cpp(folder)
        launcher = []
        if shutil.which("ccache"):
            launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
        run(["cmake", "-S", source, "-B", build, "-G", "Ninja", *LLAMA_OPTIONS, *launcher])
        run(["cmake", "--build", build, "--target", *LLAMA_TARGETS])
        stamp.write_text(LLAMA_CPP)
    return build / "bin"


def unpack_llama_cpp(folder):
    name = LLAMA_CPP.replace("==", "-")
    source = folder / name / "vendor/llama.cpp"
    if not source.exists():
        archive = folder / f"{name}.tar.gz"
        if not archive.exists():
            # pip asks the package's build system for metadata. Without isolation it uses the one of `tools`.
            run([make_environment("tools"), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                 "--no-build-isolation", "--no-binary", ":all:", "-d", folder, LLAMA_CPP])
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    return source


def make_copy(python, source, kind):
    """`source` requantized to `kind` by requantize.py, in the cache."""
    digest = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:8]
    target = PEERS / f"{source.stem}-{digest}.{kind}.gguf"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        say(f"requantizing {source.name} to {kind}")
        run([python, HERE / "requantize.py", source, target, kind])
    return target


def make_bf16_folder(python, source):
    """`source` dequantized to bf16 as a Hugging Face folder, for peers that read no GGUF on a CPU."""
    digest = hashlib.sha256(str(source.resolve()).encode()).hexdigest()[:8]
    target = PEERS / f"{source.stem}-{digest}.bf16"
    if not (target / "config.json").exists():
        say(f"writing {source.name} as bf16")
        run([python, HERE / "to_bf16.py", source, target])
    return target
