"""NetworkPolicies as the cluster's network applies them: who may connect to whom."""

import dataclasses
import ipaddress

from rendering import selects


@dataclasses.dataclass(frozen=True)
class Party:
    """One end of a connection."""
    namespace: str
    labels: dict
    address: str = "198.51.100.1"


class Policies:
    """The NetworkPolicies of one namespace."""

    def __init__(self, objects, namespace):
        self._specs = [one["spec"] for one in objects]
        self._namespace = namespace

    def allow(self, source, target, port, protocol="TCP"):
        """Whether both ends let `source` connect to a port of `target`."""
        return self.lets_out(source, target, port, protocol) and self.lets_in(source, target, port, protocol)

    def lets_out(self, source, target, port, protocol="TCP"):
        return self._allow(source, target, port, protocol, "Egress", "to")

    def lets_in(self, source, target, port, protocol="TCP"):
        return self._allow(target, source, port, protocol, "Ingress", "from")

    def _allow(self, subject, other, port, protocol, direction, side):
        applying = [spec for spec in self._specs if subject.namespace == self._namespace
                    and direction in spec["policyTypes"] and selects(spec["podSelector"], subject.labels)]
        # A pod that no policy of this direction selects may do everything.
        return not applying or any(
            _has_port(rule, port, protocol) and (not rule.get(side) or any(self._is(peer, other) for peer in rule[side]))
            for spec in applying for rule in spec.get(direction.lower(), ()))

    def _is(self, peer, party):
        if "ipBlock" in peer:
            address, block = ipaddress.ip_address(party.address), peer["ipBlock"]
            return address in ipaddress.ip_network(block["cidr"]) and not any(
                address in ipaddress.ip_network(one) for one in block.get("except", ()))
        if "namespaceSelector" in peer:
            near = selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": party.namespace})
        else:
            near = party.namespace == self._namespace
        return near and selects(peer.get("podSelector", {}), party.labels)


def _has_port(rule, port, protocol):
    return not rule.get("ports") or any(
        one.get("protocol", "TCP") == protocol and one["port"] <= port <= one.get("endPort", one["port"])
        for one in rule["ports"])
