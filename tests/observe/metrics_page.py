"""The tables of docs/metrics.md, as data."""

import dataclasses
import functools
import pathlib
import re

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
PAGE = SOURCE_DIR / "docs/metrics.md"
ROLES = ("router", "prefill", "decode", "mixed")
# Which processes expose the metrics of a section, and the label that all of them have besides those of the table.
SECTIONS = {
    "Router": (("router",), None),
    "Workers": (("prefill", "decode", "mixed"), "role"),
    "Workers that decode": (("decode", "mixed"), "role"),
    "Processes with an etcd": (ROLES, None),
    "Every process": (ROLES, None),
}
LABEL = re.compile(r"`(\w+)` \(([^)]*)\)")
WORD = re.compile(r"[a-z0-9_]+")


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str
    type: str
    unit: str
    # Label to its values; to None where the table only says how many there may be.
    labels: dict
    meaning: str
    like_vllm: str
    roles: tuple

    def series_names(self):
        """The names by which PromQL knows it."""
        if self.type != "histogram":
            return [self.name]
        return [self.name + suffix for suffix in ("_bucket", "_sum", "_count")]


def labels_of(cell):
    labels = {}
    for label, bound in LABEL.findall(cell):
        values = bound.split(", ")
        labels[label] = frozenset(values) if all(WORD.fullmatch(value) for value in values) else None
    return labels


@functools.cache
def metrics():
    """Every row of the page by its name."""
    found, section = {}, None
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| `"):
            name, kind, labels, meaning, like_vllm = (cell.strip() for cell in line.strip("|").split("|"))
            name = name.strip("`")
            type_, unit = kind.split(", ", 1)
            roles, common = SECTIONS[section]
            values = labels_of(labels)
            if common is not None:
                values[common] = frozenset(roles)
            if name.startswith("vllm:"):
                values["model_name"] = None
            assert name not in found, f"{name} stands in two tables"
            found[name] = Metric(name, type_, unit, values, meaning, like_vllm, roles)
    return found
