"""The flags of the binary, as its --help has them."""

import dataclasses
import functools
import re

from cluster import run_baton


# Its name, the kind of its value, and what that may be.
FLAG = re.compile(r"^ +(?:-\w,)?--([a-z][a-z0-9-]*)(?:,--[a-z-]+)*(?: ([A-Z]+)(?: \.\.\.|:(.*?))?)?(?:=\S*)? *(?:\(Env:|$|  )",
                  re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Flag:
    # `INT in [0 - 65535]`, `{auto,shm,tcp}`, `BYTES` or another word; empty for a switch.
    values: str

    @property
    def range(self):
        """(lowest, highest), or None."""
        bounds = re.search(r"INT in \[(\d+) - (\d+)\]", self.values)
        return tuple(map(int, bounds.groups())) if bounds else None

    @property
    def is_share(self):
        """Whether it takes a number above 0 and up to 1."""
        return self.values == "SHARE"

    @property
    def choices(self):
        words = re.fullmatch(r"\{(.*)\}", self.values)
        return words[1].split(",") if words else None


@functools.lru_cache(None)
def flags_of(command):
    """The flags of a subcommand by name, without dashes."""
    text = run_baton(*command.split(), "--help").stdout
    found = FLAG.findall(text)
    assert len(found) > 3, f"the help of {command} has another form: {text}"
    return {name: Flag(values or kind) for name, kind, values in found if name != "help"}
