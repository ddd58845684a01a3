"""Values that cannot work are refused before anything is installed, by a message that names the value and helps."""

import shutil

import helm_python as helm
import pytest

from rendering import CHART_DIR, LONG_RELEASE, RELEASE, Release, chart, problem_of

SHA256 = "0123456789abcdef" * 4
MANAGED = {"enabled": True, "certManager": {"enabled": True, "trustDomain": "example.com", "issuerRef": {"name": "ca"}}}

# What is wrong, and what the message says of it.
WRONG = {
    "a key that does not exist": ({"rooter": {}}, "additional properties 'rooter' not allowed"),
    "a misspelt key of a pool": ({"pools": {"decode": {"replica": 2}}}, "at '/pools/decode': additional properties 'replica'"),
    "a misspelt flag": ({"workers": {"flags": {"kv-memroy": "1GiB"}}}, "additional properties 'kv-memroy' not allowed"),
    "a flag that the chart sets itself": (
        {"router": {"flags": {"grpc-port": 1}}}, "at '/router/flags': additional properties 'grpc-port'"),
    "a flag of the wrong process": (
        {"router": {"flags": {"max-seqs": 4}}}, "at '/router/flags': additional properties 'max-seqs'"),
    "a flag out of range": ({"workers": {"flags": {"max-seqs": 4096}}}, "/max-seqs': maximum: got 4,096, want 1,024"),
    "threads for each core of the node": ({"workers": {"flags": {"threads": 0}}}, "/threads': minimum: got 0, want 1"),
    "a size without its unit": ({"workers": {"flags": {"kv-memory": "512"}}}, "'512' does not match pattern"),
    "a role that does not exist": (
        {"pools": {"decode": {"role": "decoder"}}}, "value must be one of 'prefill', 'decode', 'mixed'"),
    "a pool without a role": ({"pools": {"more": {}}}, "at '/pools/more': missing property 'role'"),
    "a pool whose name cannot be an object's": ({"pools": {"My_Pool": {"role": "mixed"}}}, "invalid propertyName 'My_Pool'"),
    "a pool with the router's name": ({"pools": {"router": {"role": "mixed"}}}, "pools.router: the chart has an object"),
    "text for a number": ({"pools": {"decode": {"replicas": "2"}}}, "at '/pools/decode/replicas': got string, want integer"),
    "a level of logging that does not exist": (
        {"router": {"flags": {"log-level": "trace"}}}, "value must be one of 'debug', 'info', 'warn', 'error'"),
    "two routers": ({"router": {"replicas": 2}}, "router.replicas: workers find one router by the name"),
    "a certificate without a Secret": ({"etcd": {"endpoints": ["e:2379"], "clientCertificate": True}},
                                       "etcd.clientCertificate: it needs etcd.secretName"),
    "an etcd without a port": ({"etcd": {"endpoints": ["etcd.infra"]}}, "at '/etcd/endpoints/0'"),
    "nobody who computes prompts": ({"pools": {"prefill": None}}, "no enabled pool computes prompts. Add one"),
    "nobody who generates": ({"pools": {"decode": {"enabled": False}}}, "no enabled pool generates. Add one"),
    "no pools at all": ({"pools": {"prefill": None, "decode": None}}, "no enabled pool computes prompts"),
    "a grace period that cuts streams": (
        {"pools": {"decode": {"terminationGracePeriodSeconds": 30}}},
        "pools.decode.terminationGracePeriodSeconds: 30 s would kill streams that may still run. drain.preStopSeconds (5) and "
        "drain.timeoutMs (120000) need 135 s"),
    "a grace period of the router that does": (
        {"router": {"terminationGracePeriodSeconds": 134}}, "router.terminationGracePeriodSeconds: 134 s"),
    "a KV pool beyond the memory": (
        {"workers": {"flags": {"kv-memory": "2GiB"}}},
        "pools.decode: flags.kv-memory (2GiB) and shmSize (64Mi) leave nothing of resources.limits.memory (2Gi)"),
    "a KV pool beyond the memory in bytes": (
        {"workers": {"flags": {"kv-memory": "2GiB"}, "resources": {"limits": {"memory": 2 << 30}}}},
        "leave nothing of resources.limits.memory (2147483648)"),
    "a share of a GPU beside a size": (
        {"workers": {"flags": {"gpu-memory-utilization": 0.9}}},
        "pools.decode.flags: kv-memory (512MiB) and gpu-memory-utilization (0.9) exclude each other. Remove one"),
    "a share beyond all of it": (
        {"workers": {"flags": {"gpu-memory-utilization": 1.5}}}, "/gpu-memory-utilization': maximum: got 1.5, want 1"),
    "shared memory beyond the memory": ({"workers": {"shmSize": "2Gi"}}, "shmSize (2Gi) leave nothing"),
    "no limit of memory": (
        {"defaults": {"resources": {"limits": {"memory": None}}}, "workers": {"resources": {"limits": {"memory": None}}}},
        "pools.decode.resources.limits.memory: it is missing"),
    "no number of threads": (
        {"defaults": {"resources": {"limits": {"cpu": None}}}, "workers": {"resources": {"limits": {"cpu": None}}}},
        "pools.decode: without resources.limits.cpu nothing says how many threads"),
    "an image that is not a version": ({"image": {"tag": "latest"}}, "router: the image's tag latest names no version"),
    "a digest that is none": ({"image": {"digest": "sha256:12"}}, "at '/image/digest': 'sha256:12' does not match"),
    "a claim without a file": (
        {"model": {"source": "pvc", "pvc": {"claimName": "models"}}}, "model.file: model.source pvc does not say which file"),
    "a claim without a name": ({"model": {"source": "pvc", "file": "m.gguf"}}, "model.pvc.claimName: it is missing"),
    "an image of a model without a name": (
        {"model": {"source": "image", "file": "m.gguf", "image": {"tag": "1"}}}, "model.image.repository: it is missing"),
    "an image of a model that changes": (
        {"model": {"source": "image", "file": "m.gguf", "image": {"repository": "m", "tag": "latest"}}},
        "model.image: give a tag that is not latest"),
    "a download without a digest": (
        {"model": {"source": "download", "download": {"url": "https://example.com/m.gguf"}}},
        "model.download.sha256: it is missing"),
    "a download by an unknown protocol": (
        {"model": {"source": "download", "download": {"url": "s3://bucket/m.gguf", "sha256": SHA256}}},
        "'s3://bucket/m.gguf' does not match pattern"),
    "a model that cannot be fetched": ({"model": {"fetch": {"name": "gpt"}}}, "must be one of 'smollm2-135m-instruct', "),
    "a path out of the volume": ({"model": {"source": "pvc", "file": "/etc/passwd"}}, "at '/model/file'"),
    "a KV type that the numerics exclude": (
        {"model": {"numerics": "fp32", "kvDtype": "int8"}}, "model.kvDtype: int8 does not go with numerics fp32"),
    "a KV type of the other numerics": ({"model": {"kvDtype": "f32"}}, "model.kvDtype: f32 does not go with numerics exact"),
    "two ports in one": ({"ports": {"admin": 50051}}, "ports: one process cannot listen twice at the same port"),
    "two ports for clients in one": ({"ports": {"http": 50051}}, "ports: one process cannot listen twice at the same port"),
    "a port among those for blocks": ({"ports": {"worker": 50075}}, "ports.worker: 50075 lies in ports.transfer"),
    "too few ports for blocks": ({"ports": {"transfer": {"last": 50072}}}, "ports.transfer: a worker that restarts needs four ports"),
    "a port that does not exist": ({"ports": {"grpc": 70000}}, "at '/ports/grpc': maximum: got 70,000, want 65,535"),
    "traces for nobody": ({"tracing": {"enabled": True}}, "tracing.endpoint: it is missing"),
    "a protocol of traces that does not exist": (
        {"tracing": {"protocol": "http/json"}}, "value must be one of 'grpc', 'http/protobuf'"),
    "a load balancer for nobody": (
        {"router": {"service": {"type": "LoadBalancer"}}},
        "router.service.type: LoadBalancer is for clients outside the cluster, whom networkPolicy.clients lets in by no"),
    "a port of the nodes for nobody": (
        {"router": {"service": {"type": "NodePort"}}, "networkPolicy": {"clients": []}},
        "router.service.type: NodePort is for clients outside"),
    "two monitors": (
        {"monitoring": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
        "podMonitor and serviceMonitor would both scrape every pod"),
    "an inference pool without a picker": (
        {"inferencePool": {"enabled": True}}, "inferencePool.endpointPicker.name: it is missing"),
    "an autoscaler that is upside down": (
        {"pools": {"decode": {"autoscaling": {"kind": "hpa", "minReplicas": 5}}}},
        "pools.decode.autoscaling: minReplicas (5) is above maxReplicas (4)"),
    "KEDA without Prometheus": (
        {"pools": {"decode": {"autoscaling": {"kind": "keda"}}}}, "pools.decode.autoscaling.keda.serverAddress: KEDA needs"),
    "pods that can never be replaced": (
        {"workers": {"strategy": {"maxSurge": "0%"}}}, "with maxSurge and maxUnavailable both 0 no pod"),
    "a use of KV beyond all of it": (
        {"workers": {"autoscaling": {"targets": {"kvUsage": 80}}}}, "/kvUsage': maximum: got 80, want 1"),
    "a setting that is not UCX's": ({"workers": {"ucx": {"NET_DEVICES": "eth0"}}}, "invalid propertyName 'NET_DEVICES'"),
    "a peer that is none": ({"networkPolicy": {"clients": [{"cidr": "10.0.0.0/8"}]}}, "properties 'cidr' not allowed"),
    "certificates from nowhere": (
        {"tls": {"enabled": True}}, "tls.secrets.decode: it is missing. Name the Secret with the certificate of this role"),
    "no certificate for the test": (
        {"tls": {"enabled": True, "clientAuth": "require", "secrets": {"router": "r", "prefill": "p", "decode": "d"}}},
        "tls.secrets.client: it is missing"),
    "certificates that TLS would use": (
        {"tls": {"secretName": "baton-tls"}}, "tls: it has certificates or asks for them, but tls.enabled is false"),
    "clients that would have to show a certificate without TLS": (
        {"tls": {"clientAuth": "require"}}, "but tls.enabled is false. Set it to true"),
    "a way to show certificates that does not exist": (
        {"tls": {"clientAuth": "required"}}, "value must be one of 'optional', 'require'"),
    "certificates from two sources": (
        {"tls": {**MANAGED, "secrets": {"router": "mine"}}}, "tls: certManager makes the Secrets itself. Remove secretName"),
    "an issuer without a name": (
        {"tls": {"enabled": True, "certManager": {"enabled": True, "trustDomain": "example.com"}}},
        "tls.certManager.issuerRef.name: it is missing"),
    "roles of no trust domain": (
        {"tls": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "ca"}}}},
        "tls.certManager.trustDomain: it is missing"),
    "a trust domain that is none": (
        {"tls": {"certManager": {"trustDomain": "Example/com"}}}, "'Example/com' does not match pattern"),
    "certificates that are always renewed": (
        {"tls": {**MANAGED, "certManager": {**MANAGED["certManager"], "duration": "24h"}}},
        "tls.certManager.renewBefore: 720h is not before the end of tls.certManager.duration (24h)"),
    "API keys in plain text": (
        {"apiKeys": {"secretName": "keys"}, "test": {"apiKeySecret": {"name": "key"}}},
        "apiKeys.secretName: keys travel over TLS alone. Set tls.enabled"),
    "a test without a key": (
        {"tls": MANAGED, "apiKeys": {"secretName": "keys"}}, "test.apiKeySecret.name: it is missing. The router asks for keys"),
    "a key that nobody asks for": (
        {"tls": MANAGED, "test": {"apiKeySecret": {"name": "key"}}}, "test.apiKeySecret.name: the router asks for no key"),
    "KV in plain text beside TLS": (
        {"tls": MANAGED, "workers": {"flags": {"transport": "tcp"}}},
        "pools.decode.flags.transport: tcp sends KV in plain text, which tls.enabled does not allow"),
    "KV by UCX here and over gRPC there": (
        {"tls": MANAGED, "pools": {"prefill": {"flags": {"insecure-kv-transport": True}}}},
        "pools.decode.flags.insecure-kv-transport: others have it, and move KV in another way than this pool"),
    "settings of UCX that TLS does not use": (
        {"tls": MANAGED, "pools": {"decode": {"ucx": {"UCX_TLS": "tcp"}}}},
        "pools.decode.ucx: with tls.enabled KV travels over gRPC, and UCX is not used"),
    "a key that the user cannot read": (
        {"tls": MANAGED, "router": {"podSecurityContext": {"fsGroup": None}}},
        "router.podSecurityContext.fsGroup: it is missing. With tls.enabled it is the group by which user 65532 reads the key"),
    "a gateway that speaks plain text to TLS": (
        {"tls": MANAGED, "inferencePool": {"enabled": True, "endpointPicker": {"name": "picker"}}},
        "inferencePool.enabled: gateways send plain text"),
    "an interval without its unit": (
        {"monitoring": {"podMonitor": {"interval": "15"}}}, "'15' does not match pattern"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_values_are_refused_in_words(what):
    values, expected = WRONG[what]
    problem = problem_of(values)
    assert problem is not None, "they are taken"
    assert expected in problem
    # What the chart itself says comes without the machinery of templates.
    assert "executing" not in problem and "nil pointer" not in problem


def test_all_that_does_not_fit_is_said_at_once():
    problem = problem_of({"router": {"replicas": 3}, "ports": {"admin": 50051}, "tracing": {"enabled": True}})
    assert all(word in problem for word in ("router.replicas", "ports:", "tracing.endpoint"))


def test_a_release_whose_name_begins_with_a_digit_needs_another_name():
    with pytest.raises(Exception, match="begins with no letter.*set fullnameOverride"):
        chart().render({}, name="7b")
    assert Release({"fullnameOverride": "seven"}, "7b").named("Service", "seven-router")


@pytest.mark.parametrize("policy", [
    {"enabled": False}, {"clients": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]}])
def test_a_service_for_the_world_outside_goes_with_a_policy_that_lets_it_in(policy):
    values = {"router": {"service": {"type": "LoadBalancer"}}, "networkPolicy": policy}
    assert Release(values).named("Service", "demo-baton-router")["spec"]["type"] == "LoadBalancer"


def test_an_account_of_ones_own_is_used():
    values = {"serviceAccount": {"create": False, "name": "mine"}}
    release = Release(values)
    assert not release.of_kind("ServiceAccount")
    assert {pod.spec["serviceAccountName"] for pod in release.pods} == {"mine"}
    assert {pod.spec["serviceAccountName"] for pod in Release({"serviceAccount": {"create": False}}).pods} == {"default"}


def test_pools_override_workers_and_workers_override_defaults():
    values = {
        "defaults": {"shmSize": "32Mi", "tmpSize": "1Mi", "priorityClassName": "low"},
        "workers": {"tmpSize": "2Mi", "priorityClassName": "middle", "flags": {"max-seqs": 8, "no-prefix-cache": True}},
        "pools": {"decode": {"priorityClassName": "high", "flags": {"max-seqs": 16, "no-prefix-cache": False}}},
    }
    pods = {pod.command: pod for pod in Release(values).serving_pods}
    assert {name: pod.spec["priorityClassName"] for name, pod in pods.items()} == {
        "router": "low", "prefill-worker": "middle", "decode-worker": "high"}
    sizes = lambda pod, volume: [one["emptyDir"]["sizeLimit"] for one in pod.spec["volumes"] if one["name"] == volume]
    assert sizes(pods["decode-worker"], "shm") == ["32Mi"] and sizes(pods["decode-worker"], "tmp") == ["2Mi"]
    assert sizes(pods["router"], "tmp") == ["1Mi"]
    assert pods["prefill-worker"].flag("max-seqs") == "8" and pods["decode-worker"].flag("max-seqs") == "16"
    # A switch that is off is not given.
    assert pods["prefill-worker"].flag("no-prefix-cache") == "" and pods["decode-worker"].flag("no-prefix-cache") is None


def test_large_numbers_stay_numbers():
    values = {"defaults": {"drain": {"timeoutMs": 86_400_000}, "podSecurityContext": {"runAsUser": 1_000_650_000}}}
    for pod in Release(values).serving_pods:
        assert pod.flag("drain-timeout-ms") == "86400000"
        assert pod.spec["terminationGracePeriodSeconds"] == 86_415
        assert pod.spec["securityContext"]["runAsUser"] == 1_000_650_000


def test_a_limit_of_memory_may_be_a_number_of_bytes():
    release = Release({"workers": {"resources": {"limits": {"memory": 8 << 30}}}})
    limits = {pod.main["resources"]["limits"]["memory"] for pod in release.serving_pods if pod.command != "router"}
    assert limits == {8 << 30}


def test_settings_of_ucx_may_be_large_numbers():
    release = Release({"workers": {"ucx": {"UCX_RC_MAX_GET_ZCOPY": 4_194_304, "UCX_TLS": "tcp"}}})
    for pod in release.serving_pods:
        values = {one["name"]: one.get("value") for one in pod.main["env"] if one["name"].startswith("UCX_")}
        assert values == ({} if pod.command == "router" else {"UCX_RC_MAX_GET_ZCOPY": "4194304", "UCX_TLS": "tcp"})


def test_text_that_is_no_plain_yaml_stays_as_it_is():
    name = "chat: small #1"
    values = {"model": {"servedName": name}, "tracing": {
        "enabled": True, "endpoint": "http://collector:4317", "resourceAttributes": {"note": name}}}
    release = Release(values)
    assert {pod.flag("served-model-name") for pod in release.serving_pods} == {name}
    (router,) = [pod for pod in release.serving_pods if pod.command == "router"]
    (attributes,) = [one["value"] for one in router.main["env"] if one["name"] == "OTEL_RESOURCE_ATTRIBUTES"]
    assert attributes == f"k8s.namespace.name={release.namespace},k8s.pod.name=$(POD_NAME),note={name}"


def test_the_image_of_the_defaults_is_that_of_all_pods():
    release = Release({"defaults": {"image": {"tag": "9.9.9", "pullPolicy": "Always"}}})
    pulled = {(pod.main["image"], pod.main["imagePullPolicy"]) for pod in release.pods}
    assert pulled == {("baton:9.9.9", "Always")}


@pytest.mark.parametrize("limit, threads", [(1, 1), ("1", 1), (2.5, 2), ("1500m", 1), ("500m", 1), ("12", 12), (32, 32)])
def test_threads_follow_the_limit_of_the_cpu(limit, threads):
    (pod,) = [pod for pod in Release({"workers": {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": limit}}}}).pods
              if pod.command == "decode-worker"]
    assert pod.flag("threads") == str(threads)


def workloads(values, of=None, name=RELEASE):
    return {one["metadata"]["name"]: one["spec"] for one in Release(values, name, of=of).of_kind("Deployment")}


@pytest.mark.parametrize("name", [RELEASE, LONG_RELEASE])
def test_no_value_that_may_change_touches_a_selector(name):
    changed = {
        "commonLabels": {"team": "other"}, "image": {"tag": "9.9.9"}, "model": {"servedName": "other"},
        "defaults": {"podLabels": {"a": "b", "baton/workload": "router", "app.kubernetes.io/instance": "x"}},
        "pools": {"prefill": {"role": "mixed"}, "decode": {"flags": {"max-seqs": 3}, "replicas": 7}},
    }
    before, after = workloads({}, name=name), workloads(changed, name=name)
    assert before.keys() == after.keys()
    for its_name, spec in before.items():
        assert spec["selector"] == after[its_name]["selector"]
        assert spec["selector"]["matchLabels"].items() <= after[its_name]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("kind", ["hpa", "keda"])
@pytest.mark.parametrize("live, kept", [(7, 7), (0, None)])
def test_a_pool_that_gets_an_autoscaler_keeps_the_pods_that_it_has(tmp_path, kind, live, kept):
    # What a cluster would answer: Helm's `lookup` finds nothing without one.
    shutil.copytree(CHART_DIR, tmp_path / "chart")
    template = tmp_path / "chart/templates/pools.yaml"
    question = 'lookup "apps/v1" "Deployment" $.Release.Namespace $object'
    assert template.read_text().count(question) == 1
    template.write_text(template.read_text().replace(question, f'fromJson `{{"spec": {{"replicas": {live}}}}}`'))
    values = {"pools": {"decode": {"autoscaling": {"kind": kind, "keda": {"serverAddress": "http://prometheus:9090"}}}}}
    with helm.Chart.load(tmp_path / "chart") as with_cluster:
        specs = workloads(values, of=with_cluster)
    assert specs["demo-baton-decode"].get("replicas") == kept and specs["demo-baton-prefill"]["replicas"] == 1
    assert "replicas" not in workloads(values)["demo-baton-decode"]


def test_a_new_version_of_the_chart_alone_starts_no_pod_again(tmp_path):
    with helm.Chart.load(helm.package(CHART_DIR, destination=tmp_path, version="99.0.0")) as newer:
        assert newer.version == "99.0.0"
        assert workloads({}, of=newer) == workloads({})
