"""The chart renders for every set of values in ci/, and Kubernetes and the makers of the custom resources would take what
comes."""

import functools
import json
import pathlib
import re

import helm_python as helm
import jsonschema
import kubernetes_validate
import kubernetes_validate.utils
import pytest
import referencing
import yaml

from rendering import CHART_DIR, LONG_RELEASE, RELEASE, SOURCE_DIR, Release, chart, identity, release_of, value_sets

SETS = value_sets()
# The oldest that Chart.yaml allows, one in the middle, and the newest that the library knows.
VERSIONS = ["1.27", "1.32", "1.37"]
# Sets whose comments say that they need a newer Kubernetes.
OLDEST = {"model-image-volume": "1.32", "several-pools": "1.32"}
SCHEMAS = pathlib.Path(__file__).parent / "schemas"
WARNING = 2

# It reads a definition file of megabytes for each object.
kubernetes_validate.utils.schema_contents = functools.lru_cache(None)(kubernetes_validate.utils.schema_contents)


def numbers(version):
    return tuple(map(int, version.split(".")))


def own_schema(one):
    """Of a custom resource, or None."""
    group = one["apiVersion"].replace("/", "-")
    path = SCHEMAS / f"{one['kind'].lower()}-{group}.json"
    return json.loads(path.read_text()) if path.exists() else None


def check_custom(one):
    common = referencing.Resource(json.loads((SCHEMAS / "common.json").read_text()), referencing.jsonschema.DRAFT7)
    registry = referencing.Registry().with_resource("common.json", common)
    validator = jsonschema.Draft7Validator(own_schema(one), registry=registry)
    problems = [f"{identity(one)}: {list(error.path)}: {error.message}" for error in validator.iter_errors(one["spec"])]
    assert not problems
    assert set(one) == {"apiVersion", "kind", "metadata", "spec"}


def test_there_is_a_set_for_each_way_to_deploy():
    assert len(SETS) >= 10
    assert {"minimal", "full", "external-model", "rdma-gpu", "mixed-only", "autoscaling", "inference-pool", "restricted",
            "one-node", "air-gapped"} <= set(SETS)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_the_objects(name, version):
    if numbers(version) < numbers(OLDEST.get(name, "1.0")):
        with pytest.raises(kubernetes_validate.ValidationError):
            validate_all(release_of(name), version)
    else:
        validate_all(release_of(name), version)


def validate_all(rendered, version):
    assert rendered.objects
    for one in rendered.objects:
        if own_schema(one) is not None:
            check_custom(one)
        else:
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_helm_finds_nothing_to_complain_about(name, version):
    report = helm.lint(CHART_DIR, SETS[name], strict=True, kube_version=f"v{version}.0")
    assert report["total_charts_linted"] == 1
    complaints = [one for one in report["messages"] if one["severity"] >= WARNING]
    assert not complaints and not report["errors"]


@pytest.mark.parametrize("name", SETS)
def test_names_are_short_unique_and_well_formed(name):
    for release_name in (RELEASE, LONG_RELEASE):
        rendered = release_of(name, release_name)
        names = [identity(one) for one in rendered.objects]
        assert len(set(names)) == len(names)
        for kind, its_name in names:
            # A Service's name has to begin with a letter.
            assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", its_name) and len(its_name) <= 63, (kind, its_name)
            if kind == "Deployment":
                assert len(f"{its_name}-0123456789-abcde") <= 63, "a pod's host name would be cut off"
        for labels in [one["metadata"]["labels"] for one in rendered.objects] + [pod.labels for pod in rendered.pods]:
            assert all(re.fullmatch(r"([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?", value) and len(value) <= 63
                       for value in labels.values()), labels


def test_two_releases_whose_long_names_begin_alike_share_no_object():
    first, second = (Release({}, LONG_RELEASE[:-1] + end) for end in "xy")
    assert not {identity(one) for one in first.objects} & {identity(one) for one in second.objects}


@pytest.mark.parametrize("name", SETS)
def test_every_object_has_the_labels_that_helm_recommends(name):
    for one in release_of(name).objects:
        labels = one["metadata"]["labels"]
        assert {"helm.sh/chart", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version",
                "app.kubernetes.io/managed-by", "app.kubernetes.io/component"} <= set(labels), identity(one)
        assert labels["app.kubernetes.io/instance"] == RELEASE
        assert SETS[name].get("commonLabels", {}).items() <= labels.items()


@pytest.mark.parametrize("name", SETS)
def test_the_notes_name_the_next_command_and_objects_that_exist(name):
    rendered = release_of(name)
    tested = bool(rendered.of_kind("Pod"))
    assert (f"helm test {RELEASE} " in rendered.notes) == tested
    kinds = {"deployment": "Deployment", "service": "Service"}
    named = re.findall(r"(deployment|service)/([a-z0-9-]+)", rendered.notes)
    assert len(named) >= 3
    for kind, its_name in named:
        rendered.named(kinds[kind], its_name)


@pytest.mark.parametrize("name", SETS)
def test_the_schema_knows_every_value_of_the_set(name):
    chart().validate_schema(SETS[name])


def test_the_charts_version_of_baton_is_the_projects():
    project = re.search(r"project\(baton VERSION (\S+)", (SOURCE_DIR / "CMakeLists.txt").read_text())[1]
    assert chart().metadata["appVersion"] == project


def test_the_package_holds_dashboards_and_rules_and_renders_alike(tmp_path):
    archive = helm.package(CHART_DIR, destination=tmp_path)
    with helm.Chart.load(archive) as packed:
        names = {file["name"] for file in packed.files}
        linked = {f"files/dashboards/{path.name}" for path in (SOURCE_DIR / "deploy/grafana").glob("*.json")}
        linked |= {f"files/rules/{path.name}" for path in (SOURCE_DIR / "deploy/prometheus").glob("*.yaml")}
        assert names == linked | {".helmignore", "README.md"}
        # A release keeps the chart in a Secret of at most 1 MiB.
        assert pathlib.Path(archive).stat().st_size < 200_000
        assert Release(SETS["full"], of=packed).objects == release_of("full").objects


def test_dashboards_and_rules_are_those_of_the_repository():
    objects = release_of("full").objects
    dashboards = {key: text for one in objects if one["kind"] == "ConfigMap" for key, text in one["data"].items()}
    originals = {path.name: json.loads(path.read_text()) for path in (SOURCE_DIR / "deploy/grafana").glob("*.json")}
    assert originals and {name: json.loads(text) for name, text in dashboards.items()} == originals
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (SOURCE_DIR / "deploy/prometheus").glob("*.yaml")}
    expected = {stem: json.loads(json.dumps(one["groups"]).replace(
        '"runbook_url": "', '"runbook_url": "https://example.com/baton/')) for stem, one in files.items() if "groups" in one}
    rules = {one["metadata"]["name"]: one["spec"]["groups"] for one in release_of("full").of_kind("PrometheusRule")}
    assert len(expected) >= 2
    assert rules == {f"{RELEASE}-baton-{stem.replace('_', '-')}": groups for stem, groups in expected.items()}
    for groups in rules.values():
        # Kubernetes refuses two groups of one name.
        assert len({group["name"] for group in groups}) == len(groups)
