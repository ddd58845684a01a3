"""What the chart renders: the objects of a set of values, and the pods among them."""

import dataclasses
import functools
import pathlib

import helm_python as helm
import yaml

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
CHART_DIR = SOURCE_DIR / "deploy/helm/baton"
NAMESPACE = "serving"
RELEASE = "demo"
# The longest that Helm allows.
LONG_RELEASE = "a-release-name-of-fifty-three-characters-is-as-long-x"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.lru_cache(None)
def chart():
    return helm.Chart.load(CHART_DIR)


@functools.lru_cache(None)
def value_sets():
    """The values of ci/, by name."""
    return {path.stem: yaml.load(path.read_text(), LOADER) for path in sorted((CHART_DIR / "ci").glob("*.yaml"))}


@dataclasses.dataclass(frozen=True)
class Pod:
    """A pod as an object describes it. `owner` is the kind and name of that object."""
    owner: tuple
    labels: dict
    spec: dict

    @property
    def is_long_lived(self):
        return self.owner[0] == "Deployment"

    @property
    def containers(self):
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def main(self):
        (container,) = self.spec["containers"]
        return container

    @property
    def command(self):
        """The subcommand of baton that it runs: what the pod really is, whatever its labels say."""
        return self.main["args"][0]

    def flag(self, name, default=None):
        values = [arg.partition("=")[2] for arg in self.main["args"] if arg.split("=")[0] == f"--{name}"]
        assert len(values) <= 1, f"{self.owner}: --{name} is given {len(values)} times"
        return values[0] if values else default

    @property
    def transfer_ports(self):
        first, _, last = self.flag("transfer-ports", "1-0").partition("-")
        return range(int(first), int(last) + 1)

    @property
    def listens(self):
        """The ports that its arguments open."""
        ports = [self.flag(name) for name in ("grpc-port", "http-port", "cluster-port", "admin-port")]
        return {int(port) for port in ports if port} | set(self.transfer_ports)


class Release:
    """The objects of one release."""

    def __init__(self, values, name=RELEASE, namespace=NAMESPACE, of=None):
        rendered = (of or chart()).render(values, name=name, namespace=namespace)
        self.name, self.namespace = name, namespace
        self.notes = next(text for path, text in rendered.items() if path.endswith("/NOTES.txt"))
        self.objects = [one for path, text in sorted(rendered.items()) if path.endswith(".yaml")
                        for one in yaml.load_all(text, LOADER) if one]

    def of_kind(self, kind):
        return [one for one in self.objects if one["kind"] == kind]

    def named(self, kind, name):
        (found,) = [one for one in self.of_kind(kind) if one["metadata"]["name"] == name]
        return found

    @functools.cached_property
    def pods(self):
        deployments = [Pod(identity(one), one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"])
                       for one in self.of_kind("Deployment")]
        return deployments + [Pod(identity(one), one["metadata"]["labels"], one["spec"]) for one in self.of_kind("Pod")]

    @property
    def serving_pods(self):
        return [pod for pod in self.pods if pod.is_long_lived]


def identity(one):
    return one["kind"], one["metadata"]["name"]


def selects(selector, labels):
    """Whether a label selector matches. A plain map of labels is one too, as Services have it."""
    if not {"matchLabels", "matchExpressions"} & set(selector):
        selector = {"matchLabels": selector}
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    operators = {"In": lambda label, values: label in values, "NotIn": lambda label, values: label not in values,
                 "Exists": lambda label, _: label is not None, "DoesNotExist": lambda label, _: label is None}
    return all(operators[one["operator"]](labels.get(one["key"]), one.get("values"))
               for one in selector.get("matchExpressions", ()))


@functools.lru_cache(None)
def release_of(set_name, name=RELEASE):
    """The release of a set of values."""
    return Release(value_sets()[set_name], name)


def problem_of(values):
    """What Helm says of wrong values, or None."""
    try:
        chart().render(values, name=RELEASE, namespace=NAMESPACE)
    except helm.HelmError as error:
        return str(error)
    return None
