"""What the chart says of itself: its README, its schema and the metrics by which it scales fit what there is."""

import re
import subprocess
import sys

import yaml

from rendering import CHART_DIR, SOURCE_DIR, chart, release_of

SCRIPT = SOURCE_DIR / "scripts/helm_readme.py"


def test_the_tables_of_the_readme_are_made_of_the_values():
    result = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def properties_of(schema, definitions):
    while "$ref" in schema:
        path = schema["$ref"].removeprefix("#/definitions/").split("/")
        schema = definitions
        for step in path:
            schema = schema[step]
    return schema.get("properties", {})


def missing(values, schema, definitions, path=""):
    """Keys that only one of values.yaml and the schema has, where both have maps with fixed keys."""
    allowed = properties_of(schema, definitions)
    found = []
    for key in allowed.keys() | values.keys():
        name = f"{path}.{key}".lstrip(".")
        if key not in allowed:
            found.append(f"{name} is not in the schema")
        elif key not in values:
            found.append(f"{name} is not in values.yaml")
        elif isinstance(values[key], dict) and properties_of(allowed[key], definitions) and values[key]:
            found += missing(values[key], allowed[key], definitions, name)
    return found


def test_values_and_schema_have_the_same_keys():
    schema, values = chart().schema, yaml.safe_load((CHART_DIR / "values.yaml").read_text())
    found = set(missing(values, schema, schema["definitions"]))
    # `global` is for charts that this one is a part of. Blocks that override others name what they change alone.
    partly = re.compile(r"^(global|(router|workers)\.\S+|model\.download\.image\.\S+|\S+\.resources\.(requests|limits))"
                        r" is not in values.yaml$")
    by_choice = {one for one in found if partly.match(one)} | {
        f"{flags} is not in values.yaml" for flags in ("router.flags", "workers.flags")}
    assert found <= by_choice, found - by_choice


def test_every_key_that_router_and_workers_share_is_a_default():
    values = yaml.safe_load((CHART_DIR / "values.yaml").read_text())
    assert set(chart().schema["definitions"]["pod"]["properties"]) == set(values["defaults"])


def test_prefill_scales_by_work_that_waits_and_decode_by_memory_and_slots():
    names = {one["metadata"]["name"].rpartition("-")[2]: {
        metric["pods"]["metric"]["name"] for metric in one["spec"]["metrics"] if metric["type"] == "Pods"}
        for one in release_of("autoscaling").of_kind("HorizontalPodAutoscaler")}
    assert names["prefill"] == {"baton_pending_prompt_tokens"}
    assert names["decode"] == {"baton_engine_sequences", "baton_kv_usage_ratio"}
    triggers = {one["metadata"]["name"].rpartition("-")[2]: " ".join(
        trigger["metadata"]["query"] for trigger in one["spec"]["triggers"])
        for one in release_of("autoscaling-keda").of_kind("ScaledObject")}
    assert "baton_pending_prompt_tokens" in triggers["prefill"] and "baton_kv_blocks" not in triggers["prefill"]
    assert "baton_kv_blocks" in triggers["decode"] and "baton_pending_prompt_tokens" not in triggers["decode"]
    assert {"baton_kv_blocks", "baton_pending_prompt_tokens"} <= set(re.findall(r"baton_\w+", triggers["mixed"]))


def test_a_pools_query_asks_for_its_own_pods_alone():
    for one in release_of("autoscaling-keda").of_kind("ScaledObject"):
        name = one["metadata"]["name"]
        for trigger in one["spec"]["triggers"]:
            for pattern in re.findall(r'pod=~"([^"]*)"', trigger["metadata"]["query"]):
                # Prometheus anchors its patterns.
                assert re.fullmatch(pattern, f"{name}-7d4b9c6f5d-x2x7z")
                assert not re.fullmatch(pattern, f"{name}-other-7d4b9c6f5d-x2x7z")
