"""Volumes with what Secrets hold, as the kubelet makes them: files are links into a folder that is replaced as a whole when
the Secret changes, so that readers see the old ones or the new ones."""

import os

# What fsGroup adds to the mode of a file that is mounted read-only.
GROUP_MAY_READ = 0o440


def mode_of(source, fs_group):
    """The mode that the files of a `secret` of a pod's volumes get."""
    mode = source.get("defaultMode", 0o644)
    return mode if fs_group is None else mode | GROUP_MAY_READ


class SecretVolume:
    """The volume in `folder`. `source` is the `secret` of the pod's volume; `data` has bytes by keys."""

    def __init__(self, folder, source, fs_group, data):
        self.secret = source["secretName"]
        self.folder, self._source, self._fs_group = folder, source, fs_group
        self._version = 0
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        self.write(data)
        for path in self._paths().values():
            (folder / path).symlink_to(f"..data/{path}")

    def _paths(self):
        return {item["key"]: item["path"] for item in self._source["items"]}

    def write(self, data):
        """KeyError when the Secret lacks a key that the volume names: the kubelet would not start the pod."""
        self._version += 1
        version = self.folder / f"..{self._version}"
        version.mkdir()
        version.chmod(0o755)
        for key, path in self._paths().items():
            file = version / path
            file.write_bytes(data[key])
            os.chown(file, 0, self._fs_group or 0)
            file.chmod(mode_of(self._source, self._fs_group))
        link = self.folder / "..data_new"
        link.symlink_to(version.name)
        os.replace(link, self.folder / "..data")
