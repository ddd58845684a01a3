"""Dashboards, rules, runbook pages and the table of metrics, as files: they fit each other, and Grafana's own types and
promtool accept them."""

import itertools
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

import queries
from metrics_page import SOURCE_DIR, metrics
from prometheus import promtool

CORE_PANELS = {"timeseries", "stat", "bargauge", "table", "heatmap", "row"}
# What Grafana's types leave to the data source, and the spelling of Grafana 10 for what 11 calls `mode`.
UNTYPED = re.compile(r"\.annotations\.list\[\d+\]\.(titleFormat|textFormat)|\.panels\[\d+\]\.options\.tooltip\.show")
TARGET_LABELS = {"namespace", "job", "instance", "le"}
# Series that Prometheus itself makes.
PROMETHEUS_SERIES = {"up", "ALERTS", "ALERTS_FOR_STATE"}
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
RULE_TESTS = sorted((SOURCE_DIR / "tests/observe").glob("*_rules_test.yaml"))
RUNBOOK_PARTS = ["What it means", "What users notice", "How to look", "What to do", "How to prevent it"]
ALERTS = {rule["alert"] for rule in queries.rules("alert")}
DASHBOARDS = queries.dashboards()
PANELS = [pytest.param(name, panel, id=f"{name}: {panel['title']}")
          for name, dashboard in DASHBOARDS.items() for panel in queries.panels_of(dashboard)]


def lost_fields(ours, kept, path=""):
    """What of a JSON value is not in another one."""
    if isinstance(ours, dict) and isinstance(kept, dict):
        for key, value in ours.items():
            yield from lost_fields(value, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
    elif isinstance(ours, list) and isinstance(kept, list) and len(ours) == len(kept):
        for number, (one, other) in enumerate(zip(ours, kept)):
            yield from lost_fields(one, other, f"{path}[{number}]")
    elif ours != kept:
        yield f"{path}: {ours!r} became {kept!r}"


def fields_that_grafana_does_not_know(dashboard):
    """Grafana's types drop what they do not know, so these are the fields that a round through them loses."""
    register_default_plugins()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    return [field for field in lost_fields(dashboard, kept) if not UNTYPED.fullmatch(field)]


def test_the_dashboards_are_what_the_generator_writes():
    done = subprocess.run([sys.executable, queries.GRAFANA_DIR / "generate.py", "--check"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", DASHBOARDS)
def test_grafana_knows_every_field_of_a_dashboard(name):
    assert not fields_that_grafana_does_not_know(DASHBOARDS[name])


def test_a_misspelt_field_of_a_dashboard_is_found_out():
    dashboard = json.loads(json.dumps(DASHBOARDS["baton-overview.json"]))
    dashboard["panels"][0]["fieldConfig"]["defaults"]["unti"] = "s"
    dashboard["graphTooltips"] = 1
    found = fields_that_grafana_does_not_know(dashboard)
    assert set(found) == {".graphTooltips", ".panels[0].fieldConfig.defaults.unti"}


@pytest.mark.parametrize(("name", "panel"), PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(name, panel):
    assert panel["type"] in CORE_PANELS
    assert panel["description"].endswith((".", "?")) and len(panel["description"].split()) >= 4, panel["description"]
    units = [panel["fieldConfig"]["defaults"].get("unit")]
    units += [item["value"] for override in panel["fieldConfig"]["overrides"] for item in override["properties"]
              if item["id"] == "unit"]
    assert any(units), "no unit"
    assert panel["type"] == "heatmap" or panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    several = len(panel["targets"]) > 1
    for target in panel["targets"]:
        assert target["datasource"]["uid"] == "${datasource}", name
        assert target.get("format") == "table" or not several or target["legendFormat"], "series without a name"
        # A legend names only labels that the query keeps.
        without_matchers = re.sub(r"\{[^}]*\}", "", target["expr"])
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert re.search(rf"\b{label}\b", without_matchers) or " by " not in without_matchers, label


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap_and_have_ids_of_their_own(name):
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] + ".json" == name and "baton" in dashboard["tags"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in itertools.product(range(place["x"], place["x"] + place["w"]),
                                      range(place["y"], place["y"] + place["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


def test_links_between_dashboards_lead_to_one():
    uids = {dashboard["uid"] for dashboard in DASHBOARDS.values()}
    links = [link["url"] for dashboard in DASHBOARDS.values() for panel in dashboard["panels"]
             for link in panel.get("links", ())]
    assert len(links) > 10
    assert {re.match(r"/d/([\w-]+)\?", link)[1] for link in links} <= uids
    for dashboard in DASHBOARDS.values():
        (link,) = dashboard["links"]
        assert link["tags"] == ["baton"] and link["includeVars"] and link["keepTime"]


def wrong_selectors(expression):
    """Names and matchers of an expression that fit neither docs/metrics.md nor a recording rule."""
    documented = {name: metric for metric in metrics().values() for name in metric.series_names()}
    recorded = {rule["record"] for rule in queries.rules("record")}
    for name, matchers in queries.selectors(expression.text):
        if name in recorded | PROMETHEUS_SERIES:
            continue
        if name not in documented:
            yield f"{expression.where}: {name} is no metric"
            continue
        labels = documented[name].labels
        for label, operator, value in MATCHER.findall(matchers):
            if label not in {*labels, *TARGET_LABELS}:
                yield f"{expression.where}: {name} has no label {label}"
            elif labels.get(label) and value != queries.ALL_VALUES:
                values = value.split("|") if operator in ("=~", "!~") else [value]
                yield from (f"{expression.where}: {name} has no {label}={one}" for one in values
                            if one not in {*labels[label], "router"})


def all_expressions():
    return (queries.dashboard_expressions() + queries.recording_expressions() + queries.alert_expressions()
            + queries.runbook_expressions())


def test_every_query_reads_metrics_labels_and_values_that_the_table_has():
    assert not [wrong for expression in all_expressions() for wrong in wrong_selectors(expression)]


@pytest.mark.parametrize("text", ["rate(baton_request_total[5m])", 'baton_requests_total{outcom="ok"}',
                                  'sum by (x) (baton_requests_total{outcome=~"ok|cancled"})'])
def test_a_query_that_the_table_does_not_cover_is_found_out(text):
    assert len(list(wrong_selectors(queries.Expression("here", text)))) == 1


def test_every_recorded_series_is_read_by_somebody():
    read = {name for expression in all_expressions() for name, _ in queries.selectors(expression.text)}
    assert not {rule["record"] for rule in queries.rules("record")} - read


def test_the_rules_are_valid_and_have_no_duplicates():
    code, said = promtool("check", "rules", "--lint=all", "--lint-fatal", *queries.RULE_FILES)
    assert code == 0, said


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.name)
def test_the_rules_do_what_their_unit_tests_say(path):
    code, said = promtool("test", "rules", path)
    assert code == 0, said


def test_every_alert_is_tested_firing_and_silent():
    cases = [case for path in RULE_TESTS for test in yaml.safe_load(path.read_text())["tests"]
             for case in test.get("alert_rule_test", ())]
    firing = {case["alertname"] for case in cases if case["exp_alerts"]}
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert firing == silent == ALERTS
    # Alerts with several windows fire in each of them.
    windows = {(rule["alert"], rule["labels"]["window"]) for rule in queries.rules("alert")
               if "window" in rule["labels"]}
    assert windows == {(case["alertname"], alert["exp_labels"]["window"]) for case in cases
                       for alert in case["exp_alerts"] if "window" in alert["exp_labels"]}


def test_every_alert_says_how_bad_it_is_and_where_to_read_on():
    for rule in queries.rules("alert"):
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert not rule["annotations"]["summary"].endswith(".") and rule["annotations"]["description"].endswith(".")


def test_alerts_and_runbook_pages_are_the_same():
    pages = {path.stem: path.read_text() for path in queries.RUNBOOKS_DIR.glob("*.md")}
    table = pages.pop("README")
    assert set(pages) == ALERTS
    severity = {rule["alert"]: rule["labels"]["severity"] for rule in queries.rules("alert")}
    for alert, text in pages.items():
        assert text.startswith(f"# {alert}\n\nSeverity: {severity[alert]}.\n")
        assert re.findall(r"^## (.*)", text, re.M) == RUNBOOK_PARTS, alert
        assert "```promql\n" in text, alert
        assert f"| [{alert}]({alert}.md) | {severity[alert]} |" in table


def test_the_examples_are_configurations_that_prometheus_takes(tmp_path):
    examples = sorted((queries.PROMETHEUS_DIR / "examples").glob("*.yaml"))
    assert examples
    for example in examples:
        text = example.read_text().replace("/etc/prometheus/baton/", f"{queries.PROMETHEUS_DIR}/")
        config = yaml.safe_load(text)
        for job in config["scrape_configs"]:
            # Debian builds Prometheus without the discovery of Kubernetes.
            if job.pop("kubernetes_sd_configs", None):
                job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
        path = tmp_path / example.name
        path.write_text(yaml.safe_dump(config))
        code, said = promtool("check", "config", path)
        assert code == 0, said


def run_targets(folder, status, exit_code=0):
    """targets.py with a `baton` that says `status`: its exit code and what the file has, if there is one."""
    baton, out = folder / "baton", folder / "targets.json"
    baton.write_text(f"#!/bin/sh\ncat <<'END'\n{status}\nEND\nexit {exit_code}\n")
    baton.chmod(0o755)
    done = subprocess.run([sys.executable, queries.PROMETHEUS_DIR / "targets.py", "--baton", baton, "--out", out,
                           "--job", "mine"], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(out.read_text()) if out.exists() else None


def test_targets_are_the_admin_ports_of_router_and_workers(tmp_path):
    status = {"router": {"admin": "127.0.0.1:9464"},
              "workers": [{"admin": "127.0.0.1:7002"}, {"admin": None}, {"admin": "127.0.0.1:7001"}]}
    assert run_targets(tmp_path, json.dumps(status)) == (
        0, [{"targets": ["127.0.0.1:7001", "127.0.0.1:7002", "127.0.0.1:9464"], "labels": {"job": "mine"}}])
    # They stay while the router does not answer.
    code, kept = run_targets(tmp_path, "", exit_code=1)
    assert code == 1 and len(kept[0]["targets"]) == 3
    assert [path.name for path in pathlib.Path(tmp_path).glob("*targets*")] == ["targets.json"]
