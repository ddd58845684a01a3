"""Properties of what the chart renders: they hold for every set of values in ci/, whatever it sets."""

import itertools
import math
import re

import pytest

import restricted
from quantities import number_of
from rendering import LONG_RELEASE, RELEASE, identity, release_of, selects, value_sets

SETS = value_sets()
RELEASES = [(name, RELEASE) for name in SETS] + [("full", LONG_RELEASE), ("minimal", LONG_RELEASE)]
# What the values name and the chart does not make.
DECLARED = {
    "full": {("Secret", "registry-credentials"), ("Secret", "collector-headers")},
    "external-model": {("PersistentVolumeClaim", "models")},
    "air-gapped": {("Secret", "internal")},
    "tls": {("Secret", "baton-tls"), ("Secret", "baton-api-keys"), ("Secret", "baton-test-key")},
    "tls-cert-manager": {("Secret", "baton-api-keys"), ("Secret", "baton-test-key")},
    "etcd": {("Secret", "baton-etcd")},
    "tls-trusted-network": {("Secret", "router-tls"), ("Secret", "prefill-tls"), ("Secret", "decode-tls")},
}
ROLES = {"router": "router", "prefill-worker": "prefill", "decode-worker": "decode", "mixed-worker": "mixed",
         "generate": "test"}
# What Baton takes beyond its time-out (docs/serving.md).
AFTER_TIMEOUT_S = 5


@pytest.fixture(params=RELEASES, ids=lambda one: f"{one[0]}-{one[1][:4]}", scope="module")
def release(request):
    set_name, release_name = request.param
    rendered = release_of(set_name, release_name)
    rendered.set_name = set_name
    return rendered


def containers_of(release):
    return [(pod, container) for pod in release.pods for container in pod.containers]


def pods_that(release, selector):
    return [pod for pod in release.pods if selects(selector, pod.labels)]


def role_of(pod):
    """By what it runs, not by its labels."""
    return ROLES[pod.command]


def test_every_container_has_requests_and_limits(release):
    for pod, container in containers_of(release):
        requests, limits = (container["resources"][key] for key in ("requests", "limits"))
        for resource in ("cpu", "memory"):
            assert 0 < number_of(requests[resource]) <= number_of(limits[resource]), pod.owner


def test_every_pod_would_be_admitted_at_the_restricted_level(release):
    for pod in release.pods:
        assert not restricted.violations(pod.spec), pod.owner


def test_no_pod_can_write_to_its_image_or_talk_to_the_api_server(release):
    for pod, container in containers_of(release):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod.spec["automountServiceAccountToken"] is False
        assert pod.spec["enableServiceLinks"] is False
    for account in release.of_kind("ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    assert not [one for one in release.objects if one["kind"].endswith(("Role", "RoleBinding"))]


def test_a_process_that_serves_is_probed_while_it_starts_lives_and_serves(release):
    for pod in release.serving_pods:
        named = {port["name"]: port["containerPort"] for port in pod.main["ports"]}
        startup, liveness, readiness = (pod.main[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness"))
        # A worker that waits for its router lives, and one that still loads its model has not started.
        assert liveness["httpGet"] == {"path": "/healthz", "port": "admin"}
        assert named["admin"] == int(pod.flag("admin-port"))
        if pod.command == "router":
            assert startup["httpGet"] == liveness["httpGet"]
        else:
            assert startup["tcpSocket"] == {"port": "grpc"}
        assert named["grpc"] == int(pod.flag("grpc-port"))
        assert named.get("http") == (int(pod.flag("http-port")) if pod.command == "router" else None)
        service = "baton.v1.GenerationService" if pod.command == "router" else ""
        if pod.flag("tls-cert") is None:
            assert (readiness["grpc"]["port"], readiness["grpc"].get("service", "")) == (named["grpc"], service)
        elif pod.command == "router":
            # The kubelet speaks no TLS to gRPC.
            assert readiness["exec"]["command"][:2] == ["baton", "health"]
            host = "[::1]" if pod.flag("bind") == "[::]" else "127.0.0.1"
            assert {f"--target={host}:{named['grpc']}", f"--service={service}"} < set(readiness["exec"]["command"])
        else:
            assert readiness["httpGet"] == {"path": "/readyz", "port": "admin"}
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 300


def test_ports_of_a_container_are_those_that_its_arguments_open(release):
    for pod in release.serving_pods:
        assert {port["containerPort"] for port in pod.main["ports"]} == pod.listens - set(pod.transfer_ports)


def test_a_pod_has_the_time_that_its_drain_takes(release):
    for pod in release.serving_pods:
        pre_stop = pod.main.get("lifecycle", {}).get("preStop", {})
        command = pre_stop.get("exec", {}).get("command", ["sleep", "0"])
        assert command[0] == "sleep"
        before_s = int(command[1]) or pre_stop.get("sleep", {}).get("seconds", 0)
        timeout_s = math.ceil(int(pod.flag("drain-timeout-ms")) / 1000)
        assert pod.spec["terminationGracePeriodSeconds"] >= before_s + timeout_s + AFTER_TIMEOUT_S, pod.owner


def test_a_deployments_selector_finds_its_own_pods_and_no_others(release):
    for deployment in release.of_kind("Deployment"):
        found = pods_that(release, deployment["spec"]["selector"])
        assert [pod.owner for pod in found] == [identity(deployment)]


def test_services_and_budgets_select_the_pods_that_they_are_named_after(release):
    by_name = {pod.owner[1]: pod for pod in release.serving_pods}
    (router,) = [pod for pod in release.serving_pods if pod.command == "router"]
    selectors = [(one, one["spec"]["selector"]) for kind in ("Service", "PodDisruptionBudget", "InferencePool")
                 for one in release.of_kind(kind)]
    assert selectors
    for one, selector in selectors:
        name = one["metadata"]["name"]
        meant = router if one["kind"] == "InferencePool" or name.endswith("-cluster") else by_name[name]
        assert pods_that(release, selector) == [meant], identity(one)


def test_policies_select_all_pods_of_the_role_that_they_are_named_after(release):
    policies = release.of_kind("NetworkPolicy")
    for policy in policies:
        role = policy["metadata"]["name"].rpartition("-")[2]
        found = pods_that(release, policy["spec"]["podSelector"])
        assert found and found == [pod for pod in release.pods if role_of(pod) == role]
    covered = {role_of(pod) for policy in policies for pod in pods_that(release, policy["spec"]["podSelector"])}
    assert covered == ({role_of(pod) for pod in release.pods} if policies else set())


def test_no_selector_finds_a_pod_of_another_release(release):
    other = release_of(release.set_name, "other")
    selectors = [one["spec"][key] for one in release.objects for key in ("selector", "podSelector")
                 if key in one.get("spec", {})]
    assert selectors
    for selector, pod in itertools.product(selectors, other.pods):
        assert not selects(selector, pod.labels), selector


def test_a_label_says_what_a_pod_runs(release):
    for pod in release.pods:
        assert pod.labels["app.kubernetes.io/component"] == role_of(pod)


def test_ports_of_services_exist_in_the_pods_behind_them(release):
    for service in release.of_kind("Service"):
        for pod in pods_that(release, service["spec"]["selector"]):
            named = {port["name"] for port in pod.main["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= named, identity(service)


def test_ports_of_policies_and_of_the_inference_pool_exist_in_the_pods_that_they_lead_to(release):
    for policy in release.of_kind("NetworkPolicy"):
        ports = [(pod, port) for rule in policy["spec"].get("ingress", ()) for port in rule["ports"]
                 for pod in pods_that(release, policy["spec"]["podSelector"])]
        ports += [(pod, port) for rule in policy["spec"].get("egress", ()) for port in rule["ports"]
                  for peer in rule["to"] if "namespaceSelector" not in peer and "ipBlock" not in peer
                  for pod in pods_that(release, peer["podSelector"])]
        assert ports, identity(policy)
        for pod, port in ports:
            opened = set(range(port["port"], port.get("endPort", port["port"]) + 1))
            assert opened <= pod.listens, f"{identity(policy)}: {pod.owner} does not listen at {opened - pod.listens}"
    for pool in release.of_kind("InferencePool"):
        for pod in pods_that(release, pool["spec"]["selector"]):
            assert [one["number"] for one in pool["spec"]["targetPorts"]] == [int(pod.flag("grpc-port"))]


def test_workers_and_the_test_find_the_router_at_a_service_of_the_release(release):
    for pod in release.pods:
        target = pod.flag("router") or pod.flag("target")
        if target is None:
            continue
        host, _, port = target.partition(":")
        service = release.named("Service", host)
        (found,) = [one for one in service["spec"]["ports"] if one["port"] == int(port)]
        assert [one.command for one in pods_that(release, service["spec"]["selector"])] == ["router"]
        assert found["name"] == ("cluster" if pod.is_long_lived else "grpc")
        if pod.is_long_lived:
            # The router becomes ready by workers that join, so they have to reach it before.
            assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True


def test_workers_tell_others_an_address_of_their_own(release):
    for pod in release.serving_pods:
        env = {one["name"]: one for one in pod.main["env"]}
        assert env["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
        if pod.command == "router":
            continue
        brackets = "[{}]" if SETS[release.set_name].get("bind") == "[::]" else "{}"
        assert pod.flag("advertise") == brackets.format("$(POD_IP)")
        assert len(pod.transfer_ports) >= 4


def test_every_config_map_secret_claim_and_account_exists_or_is_declared(release):
    named = {identity(one) for one in release.objects} | DECLARED.get(release.set_name, set())
    named |= {("Secret", one["spec"]["secretName"]) for one in release.of_kind("Certificate")}
    for pod in release.pods:
        for kind, name in references_of(pod.spec):
            assert (kind, name) in named, f"{pod.owner}: {kind} {name}"


def references_of(spec):
    kinds = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"),
             "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
             "secretKeyRef": ("Secret", "name"), "configMapKeyRef": ("ConfigMap", "name"),
             "secretRef": ("Secret", "name"), "configMapRef": ("ConfigMap", "name")}
    sources = [*spec["volumes"]] if "volumes" in spec else []
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        sources += [one.get("valueFrom", {}) for one in container.get("env", ())] + container.get("envFrom", [])
    found = [(kinds[key][0], source[key][kinds[key][1]]) for source in sources for key in kinds if key in source]
    found += [("Secret", one["name"]) for one in spec.get("imagePullSecrets", ())]
    return found + [("ServiceAccount", spec["serviceAccountName"])]


def test_budgets_and_autoscalers_are_for_workloads_that_exist(release):
    scaled = set()
    for one in release.of_kind("HorizontalPodAutoscaler") + release.of_kind("ScaledObject"):
        target = one["spec"]["scaleTargetRef"]
        release.named(target["kind"], target["name"])
        scaled.add(target["name"])
        low, high = (one["spec"].get(f"{end}Replicas", one["spec"].get(f"{end}ReplicaCount")) for end in ("min", "max"))
        assert 1 <= low <= high
    for deployment in release.of_kind("Deployment"):
        # An upgrade would otherwise undo what the autoscaler has chosen.
        assert ("replicas" in deployment["spec"]) == (deployment["metadata"]["name"] not in scaled)
    for budget in release.of_kind("PodDisruptionBudget"):
        release.named("Deployment", budget["metadata"]["name"])


def test_monitors_scrape_every_serving_pod_once(release):
    scraped = [pod.owner for monitor in release.of_kind("PodMonitor")
               for pod in pods_that(release, monitor["spec"]["selector"])]
    for monitor in release.of_kind("ServiceMonitor"):
        for service in release.of_kind("Service"):
            if selects(monitor["spec"]["selector"], service["metadata"]["labels"]):
                assert {one["port"] for one in monitor["spec"]["endpoints"]} <= {
                    one["name"] for one in service["spec"]["ports"]}
                scraped += [pod.owner for pod in pods_that(release, service["spec"]["selector"])]
    if scraped:
        assert sorted(scraped) == sorted(pod.owner for pod in release.serving_pods)


def test_what_is_scraped_has_the_labels_that_rules_and_dashboards_go_by(release):
    scraped = {"PodMonitor": [pod.labels for pod in release.serving_pods],
               "ServiceMonitor": [service["metadata"]["labels"] for service in release.of_kind("Service")]}
    for monitor in release.of_kind("PodMonitor") + release.of_kind("ServiceMonitor"):
        spec = monitor["spec"]
        # A release is one job.
        assert {labels[spec["jobLabel"]] for labels in scraped[monitor["kind"]]} == {release.name}
        for endpoint in spec.get("podMetricsEndpoints", spec.get("endpoints")):
            relabeled = {one["targetLabel"]: one["sourceLabels"] for one in endpoint["relabelings"]}
            assert relabeled == {"instance": ["__meta_kubernetes_pod_name"]}


def test_every_mount_has_its_volume_and_the_model_lies_in_one(release):
    for pod, container in containers_of(release):
        volumes = {one["name"]: one for one in pod.spec.get("volumes", ())}
        mounts = container.get("volumeMounts", ())
        assert {one["name"] for one in mounts} <= set(volumes)
        assert len({one["mountPath"] for one in mounts}) == len(mounts)
    for pod in release.serving_pods:
        mounts = {one["mountPath"]: one for one in pod.main["volumeMounts"]}
        (model,) = [one for path, one in mounts.items() if pod.flag("model").startswith(f"{path}/")]
        assert model["readOnly"] is True
        assert {"/dev/shm", "/tmp"} <= set(mounts)
        brought = pod.spec.get("initContainers", [])
        assert bool(brought) == ("emptyDir" in volumes_of(pod)["model"] or "ephemeral" in volumes_of(pod)["model"])


def volumes_of(pod):
    return {one["name"]: one for one in pod.spec["volumes"]}


def test_memory_that_a_pod_can_fill_is_bounded(release):
    for pod in release.serving_pods:
        limit = number_of(pod.main["resources"]["limits"]["memory"])
        for volume in pod.spec["volumes"]:
            assert "emptyDir" not in volume or number_of(volume["emptyDir"]["sizeLimit"]) > 0
        shm = volumes_of(pod)["shm"]["emptyDir"]
        assert shm["medium"] == "Memory"
        pool = pod.flag("kv-memory", "0B").removesuffix("B").replace("iB", "i")
        assert number_of(shm["sizeLimit"]) + number_of(pool) < limit


def test_a_worker_has_a_thread_for_each_whole_cpu(release):
    for pod in release.serving_pods:
        if pod.command != "router":
            assert int(pod.flag("threads")) == max(1, int(number_of(pod.main["resources"]["limits"]["cpu"])))


def test_names_that_kubernetes_wants_unique_are(release):
    lists = [pod.spec.get("volumes", ()) for pod in release.pods] + [pod.containers for pod in release.pods]
    lists += [container.get(key, ()) for _, container in containers_of(release) for key in ("env", "ports")]
    lists += [service["spec"]["ports"] for service in release.of_kind("Service")]
    for named in lists:
        names = [one["name"] for one in named]
        assert len(set(names)) == len(names), names


def test_images_name_a_version(release):
    registry = SETS[release.set_name].get("imageRegistry", "")
    for pod, container in containers_of(release):
        image = container["image"]
        assert re.fullmatch(r"[a-z0-9.:/_-]+?(:(?!latest)[\w.-]+|@sha256:[0-9a-f]{64})", image), image
        assert image.startswith(registry)


def test_only_with_an_etcd_there_are_two_routers_and_workers_are_replaced_before_they_go(release):
    for deployment in release.of_kind("Deployment"):
        strategy = deployment["spec"]["strategy"]
        is_router = deployment["spec"]["template"]["spec"]["containers"][0]["args"][0] == "router"
        if is_router and not SETS[release.set_name].get("etcd"):
            assert deployment["spec"]["replicas"] == 1 and strategy == {"type": "Recreate"}
        elif release.set_name != "rdma-gpu":
            rolling = strategy["rollingUpdate"]
            assert rolling["maxUnavailable"] == 0 and rolling["maxSurge"] not in (0, "0%")


def test_replicas_spread_and_prefill_and_decode_stay_near(release):
    topology = SETS[release.set_name].get("defaults", {}).get("topology", {})
    for pod in release.serving_pods:
        if pod.command == "router" or topology.get("spreadKey") == "":
            assert "affinity" not in pod.spec and "topologySpreadConstraints" not in pod.spec
            continue
        (spread,) = pod.spec["topologySpreadConstraints"]
        assert [one.owner for one in pods_that(release, spread["labelSelector"])] == [pod.owner]
        (near,) = pod.spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        drawn = pods_that(release, near["podAffinityTerm"]["labelSelector"])
        assert drawn == [one for one in release.serving_pods if one.command != "router"]
