"""A loaded cluster, scraped by Debian's Prometheus: every query that Baton ships has data, and every metric is what
docs/metrics.md says."""

import contextlib
import dataclasses
import math
import subprocess
import sys
import urllib.request

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

import queries
from client import Client, Load, Oracle
from cluster import BINARY, Cluster, tokenize_prose
from metrics_page import metrics
from prometheus import Prometheus, promtool

# Objectives that any machine keeps, so that no alert has a reason to fire.
CLUSTER_ARGS = ("--prefill", 1, "--decode", 1, "--mixed", 1, "--threads", 1, "--admin-port", 0, "--ttft-target-ms",
                600_000, "--itl-target-ms", 60_000)
STREAMS = 4
# Rates need two scrapes, and those of histograms some requests between them.
SCRAPES = 6
SCRAPED_TIMEOUT_S = 60
SCRAPE_TIMEOUT_S = 10
# A series of one of these begins with its first event, because its source is not known before.
BY_SOURCE = ("baton_transfer_", "baton_transfers_")
BEGINS_WITH_A_FAILURE = {"baton_transfer_failures_total"}
# The cluster here has no etcd. tests/e2e/test_etcd.py reads these.
WITH_AN_ETCD = "baton_etcd_"


@dataclasses.dataclass
class Observed:
    prometheus: Prometheus
    # Admin address of each process: the router's, and the workers' by role.
    admin: dict
    load: Load


def read_metrics(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=SCRAPE_TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()


def write_targets(cluster, path):
    done = subprocess.run([sys.executable, queries.PROMETHEUS_DIR / "targets.py", "--baton", BINARY, "--target",
                           cluster.target, "--out", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def end_requests_otherwise(client):
    """One is refused and one is cancelled, which costs no error budget."""
    with pytest.raises(grpc.RpcError):
        client.generate("Hello", {"temperature": -1.0})
    stream = client.start(client.generate_request("Once upon a time", {"max_tokens": 500, "ignore_eos": True}))
    next(iter(stream))
    stream.cancel()


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    ids = tokenize_prose()
    # The first two share a prefix, and the last is computed in several chunks.
    requests = [(ids[:200], {"max_tokens": 24}), (ids[:260], {"max_tokens": 16, "ignore_eos": True}),
                (ids[1_000:1_700], {"max_tokens": 8, "ignore_eos": True})]
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(*CLUSTER_ARGS))
        status = cluster.status()
        admin = {worker["role"]: worker["admin"] for worker in status["workers"]}
        admin["router"] = status["router"]["admin"]
        assert len(admin) == 4 and cluster.admin == admin["router"]
        write_targets(cluster, folder / "targets.json")
        prometheus = stack.enter_context(Prometheus(folder, folder / "targets.json", queries.RULE_FILES))
        # The queue is seen empty before the load, so that it does not count as one that has never been empty.
        prometheus.wait_for_samples(len(admin), 1, SCRAPED_TIMEOUT_S)
        client = stack.enter_context(Client(cluster.target))
        load = stack.enter_context(Load(client, Oracle(client), requests, STREAMS))
        end_requests_otherwise(client)
        prometheus.wait_for_samples(len(admin), 1 + SCRAPES, SCRAPED_TIMEOUT_S)
        yield Observed(prometheus, admin, load)
        assert not load.stop()


def without_data(observed, expressions):
    """Those that return no finite value, with what they return."""
    found = []
    for expression in expressions:
        values = [value for _, value in observed.prometheus.query(expression.text)]
        if not expression.may_be_empty and not any(math.isfinite(value) for value in values):
            found.append(f"{expression.where}: {expression.text} is {values}")
    return found


def test_every_query_of_the_dashboards_has_data(observed):
    assert not without_data(observed, queries.dashboard_expressions())


def test_the_variables_of_the_dashboards_have_values(observed):
    for variable in queries.dashboard_variables():
        values = observed.prometheus.api(f"label/{variable.label}/values", **{"match[]": variable.selector})
        # Only Kubernetes has namespaces. The variable's `All` then matches targets without one.
        assert values or variable.label == "namespace", variable.where


def test_every_recording_rule_has_data(observed):
    assert not without_data(observed, queries.recording_expressions())
    names = {rule["record"] for rule in queries.rules("record")}
    assert not without_data(observed, [queries.Expression(name, name) for name in sorted(names)])


def test_every_alert_reads_series_that_exist(observed):
    missing = []
    for expression in queries.alert_expressions():
        observed.prometheus.query(expression.text)
        missing += [f"{expression.where}: {name}{matchers}" for name, matchers in queries.selectors(expression.text)
                    if name not in BEGINS_WITH_A_FAILURE and not observed.prometheus.query(f"{name}{matchers}")]
    assert not missing


def test_no_alert_waits_or_fires_on_a_healthy_cluster_and_no_rule_fails(observed):
    rules = observed.prometheus.rules()
    assert len(rules) == len(queries.rules("alert")) + len(queries.rules("record"))
    for rule in rules:
        assert rule["health"] == "ok" and not rule.get("lastError"), rule
        # On a busy machine a scrape may miss its second.
        waits = rule["name"] == "BatonScrapeDown" and rule["state"] == "pending"
        assert rule["type"] != "alerting" or rule["state"] == "inactive" or waits, rule


def test_every_query_of_the_runbook_pages_has_data(observed):
    assert not without_data(observed, queries.runbook_expressions())


def test_processes_expose_the_metrics_of_the_table_and_no_others(observed):
    wrong, seen = [], set()
    for role, address in observed.admin.items():
        documented = {name: metric for name, metric in metrics().items() if role in metric.roles}
        exposed = set()
        for family in text_string_to_metric_families(read_metrics(address)):
            name = family.name + "_total" if family.type == "counter" else family.name
            exposed.add(name)
            if name not in documented:
                wrong.append(f"{role}: {name} is not in the table")
                continue
            wrong += [f"{role}: {name} {what}" for what in wrong_family(family, documented[name], role)]
        seen |= exposed
        # A mixed worker that has pulled nothing yet, and one that has only pulled well, have no such series.
        wrong += [f"{role}: {name} is not exposed" for name in set(documented) - exposed
                  if not name.startswith((*BY_SOURCE, WITH_AN_ETCD))]
    wrong += [f"{name} is exposed by no process" for name in set(metrics()) - seen - BEGINS_WITH_A_FAILURE
              if not name.startswith(WITH_AN_ETCD)]
    assert not wrong


def wrong_family(family, metric, role):
    if family.type != metric.type:
        yield f"is a {family.type}"
    if not family.documentation.strip():
        yield "has no help"
    for label in {label for sample in family.samples for label in sample.labels} - {"le", *metric.labels}:
        yield f"has a label {label}"
    for label, allowed in metric.labels.items():
        values = {sample.labels.get(label) for sample in family.samples}
        if None in values:
            yield f"has samples without {label}"
        elif allowed is not None and not values <= allowed:
            yield f"has {label} {values - allowed}"
        elif label == "role" and "worker" not in metric.labels and not family.name.startswith("baton_worker"):
            if values != {role}:
                yield f"has role {values}"
        elif allowed is not None and label != "role" and not metric.name.startswith(BY_SOURCE) and values != allowed:
            yield f"lacks {label} {allowed - values} from the start"


def test_promtool_finds_nothing_but_the_colons_of_names_that_are_vllms(observed):
    for role, address in observed.admin.items():
        code, said = promtool("check", "metrics", stdin=read_metrics(address))
        others = [line for line in said.splitlines() if line and not (line.startswith("vllm:") and "':'" in line)]
        assert not others, f"{role}: {others}"
        assert code == (3 if role == "router" else 0), said


def test_the_phases_of_the_scraped_requests_add_up_to_their_whole(observed):
    router = {}
    for family in text_string_to_metric_families(read_metrics(observed.admin["router"])):
        for sample in family.samples:
            router[sample.name] = router.get(sample.name, 0) + sample.value
    assert router["vllm:e2e_request_latency_seconds_count"] > 0
    assert router["baton_phase_seconds_sum"] == pytest.approx(router["vllm:e2e_request_latency_seconds_sum"], rel=0.01)


def test_prometheus_config_of_the_test_is_valid(observed):
    code, said = promtool("check", "config", observed.prometheus.config)
    assert code == 0, said
