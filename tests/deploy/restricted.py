"""The level `restricted` of Kubernetes' Pod Security Standards."""

_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected",
            "secret"}


def violations(spec):
    """What the level forbids and a pod has, in words."""
    found = [f"{key} is shared with the node" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    for volume in spec.get("volumes", ()):
        (kind,) = set(volume) - {"name"}
        if kind not in _VOLUMES:
            found.append(f"volume {volume['name']} is of kind {kind}")
    pod = spec.get("securityContext", {})
    if pod.get("sysctls"):
        found.append("sysctls are set")
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        found += [f"container {container['name']} {what}" for what in _of_container(container, pod)]
    return found


def _of_container(container, pod):
    own = container.get("securityContext", {})
    both = {**pod, **own}
    capabilities = own.get("capabilities", {})
    if own.get("privileged"):
        yield "is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield "may run as root"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    if "ALL" not in capabilities.get("drop", ()):
        yield "keeps capabilities"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "adds capabilities"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "takes a port of the node"
    if own.get("procMount", "Default") != "Default":
        yield "unmasks /proc"
