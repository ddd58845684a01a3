"""docs/kubernetes.md: its values render, what its commands name exists, and its tables say what the chart does."""

import re
import shlex

import helm_python as helm
import pytest
import yaml

from cluster import SOURCE_DIR
from pages import blocks_of, commands_of
from rendering import NAMESPACE, RELEASE, Release, release_of, value_sets

PAGE = "docs/kubernetes.md"
TEXT = (SOURCE_DIR / PAGE).read_text()
METRICS = (SOURCE_DIR / "docs/metrics.md").read_text()
BLOCKS = blocks_of(PAGE, SOURCE_DIR)
YAML = [(block.line, yaml.safe_load(block.text)) for block in BLOCKS if block.language == "yaml"]
COMMANDS = [command.text for block in BLOCKS if block.language == "sh" for command in commands_of(block)]
# The rules of prometheus-adapter, which are not values of this chart.
ADAPTER = [values["rules"]["custom"] for _, values in YAML if "rules" in values]
VALUES = [(line, values) for line, values in YAML if "rules" not in values]


@pytest.mark.parametrize("values", [values for _, values in VALUES], ids=[f"line {line}" for line, _ in VALUES])
def test_the_values_of_the_page_render(values):
    assert Release(values).serving_pods


def helm_commands():
    return [shlex.split(command) for command in COMMANDS if command.startswith("helm ")]


def test_the_page_installs_tests_and_upgrades():
    assert [words[1] for words in helm_commands()] == ["install", "test", "upgrade"]
    for words in helm_commands():
        assert words[2] == RELEASE and words[words.index("--namespace") + 1] == NAMESPACE
        for at, word in enumerate(words):
            if word == "--set":
                assert Release(helm.parse_set_string(words[at + 1])).serving_pods


def test_commands_name_objects_that_the_release_has():
    names = [name for command in COMMANDS for name in re.findall(r"(deployment|service)/([a-z0-9-]+)", command)]
    assert len(names) >= 4
    for kind, name in names:
        Release({}).named(kind.capitalize(), name)
    assert Release({}).named("Service", re.search(r"headless\s+service `([a-z-]+)`", TEXT)[1])["spec"]["clusterIP"] == "None"


def test_images_that_the_page_builds_are_those_that_the_release_pulls():
    built = {word for command in COMMANDS if command.startswith("docker build") for word in command.split()
             if "/baton:" in word}
    pulled = {container["image"] for pod in Release({"imageRegistry": "registry.example.com"}).pods
              for container in pod.containers}
    assert pulled == built
    values = helm.parse_set_string(next(words[words.index("--set") + 1] for words in helm_commands() if "--set" in words))
    assert {container["image"] for pod in Release(values).pods for container in pod.containers} == built


def test_the_table_of_ports_has_the_charts():
    rows = re.findall(r"^\| .+ \| (router|all workers|all pods) \| ([0-9].*) \|$", TEXT, re.MULTILINE)
    named = {int(port) for _, ports in rows for port in re.findall(r"\b\d{4,5}\b", ports)}
    opened = {port["port"] for policy in Release({}).of_kind("NetworkPolicy") for rule in policy["spec"].get("ingress", ())
              for port in rule["ports"]}
    opened |= {port["endPort"] for policy in Release({}).of_kind("NetworkPolicy") for rule in policy["spec"].get("ingress", ())
               for port in rule["ports"] if "endPort" in port}
    assert named == opened


def test_defaults_that_the_page_names_are_the_charts():
    values = yaml.safe_load((SOURCE_DIR / "deploy/helm/baton/values.yaml").read_text())["defaults"]
    assert f"`drain.preStopSeconds` ({values['drain']['preStopSeconds']})" in TEXT
    assert values["drain"]["timeoutMs"] == 120_000 and "`drain.timeoutMs` (two minutes)" in TEXT
    startup = values["probes"]["startup"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 600 and "ten minutes by default" in TEXT


@pytest.mark.parametrize("name", [name for name in value_sets() if name.startswith("autoscaling")])
def test_pools_are_scaled_by_metrics_that_exist_or_that_the_page_has_a_rule_for(name):
    release = release_of(name)
    queries = [trigger["metadata"]["query"] for one in release.of_kind("ScaledObject") for trigger in one["spec"]["triggers"]]
    queries += [metric["pods"]["metric"]["name"] for one in release.of_kind("HorizontalPodAutoscaler")
                for metric in one["spec"]["metrics"] if metric["type"] == "Pods"]
    assert queries
    made = {rule["name"]["as"]: rule["metricsQuery"] for rules in ADAPTER for rule in rules}
    for metric in {metric for query in queries for metric in re.findall(r"\bbaton_\w+", query)}:
        for source in set(re.findall(r"\bbaton_\w+", made.get(metric, metric))):
            assert f"`{source}`" in METRICS, source
