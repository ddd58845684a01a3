"""A fresh Debian machine with systemd as its first process, in namespaces of its own."""

import contextlib
import os
import pathlib
import subprocess
import time
import uuid

from cluster import children_of, wait_until

HIERARCHY = pathlib.Path("/sys/fs/cgroup/systemd")
BOOT_TIMEOUT_S = 30
NOBODY = 65534

# In a mount namespace; the arguments are a folder and the tree that the machine's own files lie over.
ROOT = """
set -e
mkdir -p "$1"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount --rbind /dev dev
"""
INSTALL = ROOT + """
mount --bind /proc proc
cp /etc/resolv.conf etc/resolv.conf
cp "$3" root/
chroot . apt-get update -qq
DEBIAN_FRONTEND=noninteractive chroot . apt-get install -y -qq --no-install-recommends "/root/$(basename "$3")"
rm -rf var/lib/apt/lists/* var/cache/apt/* "root/$(basename "$3")"
"""
# Kernel parameters are the real machine's, so this one must not set them.
BOOT = ROOT + """
ip link set lo up
mount -t proc proc proc
mount --bind -o ro proc/sys proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs dev/shm
mkdir -p var/lib/baton/models
touch "var/lib/baton/models/$(basename "$3")"
mount --bind -o ro "$3" "var/lib/baton/models/$(basename "$3")"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test /lib/systemd/systemd --show-status=no --unit=basic.target
"""


def reason_for_none():
    """Why no such machine can be made, besides what engine.reason_for_none says."""
    return "" if HIERARCHY.is_dir() else f"there are no cgroups at {HIERARCHY}"


class Machine:
    """Root may do everything on it, but for what is the real machine's. It has a loopback and no other network."""

    def __init__(self, engine, folder):
        self._engine, self._folder = engine, folder
        self._tree = engine.machine_tree
        self._cgroup = HIERARCHY / f"baton-test-{uuid.uuid4().hex[:8]}"
        self.install_s = 0.0

    def install(self, package):
        """From the package alone, with the machine's network for what it depends on; before it boots."""
        began = time.monotonic()
        command = ["unshare", "--mount", "bash", "-c", INSTALL, "install", self._folder, self._tree, package]
        result = subprocess.run(self._engine.enter_mounts(*command), capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        self.install_s = time.monotonic() - began

    def added_bytes(self):
        """What the installation has put on the disk."""
        upper = self._folder / "upper"
        return sum(path.lstat().st_size for path in upper.rglob("*") if path.is_file() and not path.is_symlink())

    @contextlib.contextmanager
    def booted(self, model):
        self._cgroup.mkdir()
        boot = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--net", "--fork", "--kill-child",
                "bash", "-c", BOOT, "boot", self._folder, self._tree, model]
        enter = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        process = subprocess.Popen(self._engine.enter_mounts("bash", "-c", enter, self._cgroup, *boot),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            (self._pid,) = wait_until(lambda: children_of(process.pid) or process.poll(), BOOT_TIMEOUT_S, "a machine")
            wait_until(self._is_up, BOOT_TIMEOUT_S, "the machine runs")
            yield self
        finally:
            process.kill()
            process.wait()
            self._remove_cgroups()

    def _is_up(self):
        return self.run("systemctl", "is-system-running", check=False).stdout == "running\n"

    def _remove_cgroups(self):
        folders = [pathlib.Path(folder) for folder, _, _ in os.walk(self._cgroup, topdown=False)]
        # The kernel empties them a little later than its processes end.
        wait_until(lambda: not any((folder / "cgroup.procs").read_text() for folder in folders), 10,
                   "the end of all processes")
        for folder in folders:
            folder.rmdir()

    def run(self, *words, check=True, user=None, bytes_in=b""):
        """Runs a command on the booted machine to its end, as root or as the user with this id."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        command = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup",
                   "--root", "--wd", "env", "-i", "PATH=/usr/sbin:/usr/bin", *as_user, *map(str, words)]
        result = subprocess.run(command, input=bytes_in, capture_output=True, timeout=60, check=False)
        result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
        assert not check or result.returncode == 0, f"{words}: {result.stdout}{result.stderr}"
        return result

    def show(self, unit, name):
        """A property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}").stdout
