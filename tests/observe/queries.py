"""Every PromQL expression that Baton ships: of the dashboards, the rules and the runbook pages."""

import dataclasses
import functools
import json
import re

import yaml

from metrics_page import SOURCE_DIR

GRAFANA_DIR = SOURCE_DIR / "deploy/grafana"
PROMETHEUS_DIR = SOURCE_DIR / "deploy/prometheus"
RUNBOOKS_DIR = SOURCE_DIR / "docs/runbooks"
RULE_FILES = (PROMETHEUS_DIR / "recording_rules.yaml", PROMETHEUS_DIR / "alert_rules.yaml")
# What Grafana replaces. Its own choice for $__rate_interval is at least four scrapes, which are 1 s apart in the test.
GRAFANA_VARIABLES = {"$__rate_interval": "10s", "$__range": "30s", "$__interval": "1s"}
ALL_VALUES = ".*"
MAY_BE_EMPTY = "# empty while all is well"
# A name before which and after which no other part of a name stands, and its matchers.
SELECTOR = re.compile(r"(?<![\w:.$\"'])([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(?!\w)(?!\s*\()")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
WORDS = {"and", "or", "unless", "bool", "offset", "by", "on", "ignoring", "group_left", "group_right", "inf", "nan"}


@dataclasses.dataclass(frozen=True)
class Expression:
    where: str
    text: str
    # Such as an alert's: it returns series only when something is wrong.
    may_be_empty: bool = False


@dataclasses.dataclass(frozen=True)
class Variable:
    """A query variable of a dashboard: the values of a label."""
    where: str
    selector: str
    label: str


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted(GRAFANA_DIR.glob("*.json"))}


def panels_of(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def substituted(text, dashboard):
    for variable, value in GRAFANA_VARIABLES.items():
        text = text.replace(variable, value)
    for variable in dashboard["templating"]["list"]:
        text = re.sub(rf"\${variable['name']}\b", lambda _, value=variable.get("allValue", ""): value, text)
    assert "$" not in text, f"a variable that the dashboard does not have: {text}"
    return text


def dashboard_expressions():
    found = []
    for name, dashboard in dashboards().items():
        for panel in panels_of(dashboard):
            empty = "noValue" in panel["fieldConfig"]["defaults"]
            where = f"{name}, {panel['title']}"
            found += [Expression(f"{where}, {target['refId']}", substituted(target["expr"], dashboard), empty)
                      for target in panel["targets"]]
        found += [Expression(f"{name}, annotation {note['name']}", substituted(note["expr"], dashboard), True)
                  for note in dashboard["annotations"]["list"]]
    return found


def dashboard_variables():
    found = []
    for name, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                query = substituted(variable["query"]["query"], dashboard)
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
                found.append(Variable(f"{name}, variable {variable['name']}", selector, label))
    return found


@functools.cache
def rules(kind):
    """The rules of the files that have `kind`, which is "alert" or "record"."""
    return [rule for path in RULE_FILES for group in yaml.safe_load(path.read_text())["groups"]
            for rule in group["rules"] if kind in rule]


def recording_expressions():
    return [Expression(rule["record"], rule["expr"]) for rule in rules("record")]


def alert_expressions():
    return [Expression(rule["alert"], rule["expr"], True) for rule in rules("alert")]


def runbook_expressions():
    """Blocks of `promql`; a line MAY_BE_EMPTY in a block is about all of its expressions, which empty lines divide."""
    found = []
    for path in sorted(RUNBOOKS_DIR.glob("*.md")):
        for block in re.findall(r"^```promql\n(.*?)^```", path.read_text(), re.M | re.S):
            for text in block.split("\n\n"):
                code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
                found.append(Expression(path.name, code, MAY_BE_EMPTY in block))
    return found


def selectors(text):
    """The (metric, matchers) that an expression reads."""
    code = re.sub(r"\[[^\]]*\]|\boffset \w+", "", GROUPING.sub("", text))
    return [(name, matchers or "") for name, matchers in SELECTOR.findall(code)
            if name not in WORDS and not re.fullmatch(r"\d\w*", name)]
