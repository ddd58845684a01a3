"""What can be installed of the build that BATON_BINARY belongs to."""

import pathlib
import subprocess

from cluster import BINARY, SOURCE_DIR

BUILD_DIR = pathlib.Path(BINARY).parents[1]
# Of a builder who shares nothing; everybody must be able to read what is installed all the same.
STRICT_UMASK = 0o077


def install(prefix):
    subprocess.run(["cmake", "--install", BUILD_DIR, "--prefix", prefix], check=True, capture_output=True,
                   umask=STRICT_UMASK)


def run_script(name, folder):
    return subprocess.run([SOURCE_DIR / "scripts" / name, folder], check=True, capture_output=True, text=True,
                          umask=STRICT_UMASK).stdout


def install_by_script(prefix):
    run_script("install.sh", prefix)


def make_package(folder):
    """Builds the Debian package into `folder` and returns its path."""
    package = pathlib.Path(run_script("package.sh", folder).rstrip("\n"))
    assert [package] == list(folder.glob("*.deb"))
    return package
