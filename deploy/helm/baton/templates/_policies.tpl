{{/* Rules of the NetworkPolicies: clients and the test call the router, workers join it, workers that decode read from the
others, and monitoring reads metrics. An empty list of peers would mean everybody, so a rule without peers is left out. */}}

{{/* A label selector. Arguments: root, roles. */}}
{{- define "baton.podsOfRoles" -}}
matchLabels:
  {{- include "baton.releaseLabels" .root | nindent 2 }}
  {{- if eq (len .roles) 1 }}
  app.kubernetes.io/component: {{ first .roles }}
  {{- else }}
matchExpressions:
  - key: app.kubernetes.io/component
    operator: In
    values: [{{ join ", " .roles }}]
  {{- end }}
{{- end -}}

{{/* The ports by which a worker hands KV blocks over. */}}
{{- define "baton.readPorts" -}}
- port: {{ int .Values.ports.worker }}
- port: {{ int .Values.ports.transfer.first }}
  endPort: {{ int .Values.ports.transfer.last }}
{{- end -}}

{{/* Arguments: root, component. */}}
{{- define "baton.ingressRules" -}}
{{- $policy := .root.Values.networkPolicy -}}
{{- $ports := .root.Values.ports -}}
{{- if eq .component "router" }}
- from:
    - podSelector:
        {{- include "baton.podsOfRoles" (dict "root" .root "roles" (list "test")) | nindent 8 }}
    {{- with $policy.clients }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - port: {{ int $ports.grpc }}
{{- with $policy.clients }}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: {{ int $ports.http }}
{{- end }}
- from:
    - podSelector:
        {{- include "baton.podsOfRoles" (dict "root" .root "roles" (list "prefill" "decode" "mixed")) | nindent 8 }}
  ports:
    - port: {{ int $ports.cluster }}
{{- else if ne .component "test" }}
- from:
    - podSelector:
        {{- include "baton.podsOfRoles" (dict "root" .root "roles" (list "decode" "mixed")) | nindent 8 }}
  ports:
    {{- include "baton.readPorts" .root | nindent 4 }}
{{- end }}
{{- if and $policy.monitoring (ne .component "test") }}
- from:
    {{- toYaml $policy.monitoring | nindent 4 }}
  ports:
    - port: {{ int $ports.admin }}
{{- end }}
{{- end -}}

{{/* Arguments: root, component. */}}
{{- define "baton.egressRules" -}}
{{- $values := .root.Values -}}
{{- $policy := $values.networkPolicy -}}
{{- with $policy.dns }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $policy.dnsPorts }}
    - port: {{ int . }}
      protocol: UDP
    - port: {{ int . }}
      protocol: TCP
    {{- end }}
{{- end }}
{{- if ne .component "router" }}
- to:
    - podSelector:
        {{- include "baton.podsOfRoles" (dict "root" .root "roles" (list "router")) | nindent 8 }}
  ports:
    - port: {{ ternary $values.ports.grpc $values.ports.cluster (eq .component "test") | int }}
{{- end }}
{{- if has .component (list "decode" "mixed") }}
- to:
    - podSelector:
        {{- include "baton.podsOfRoles" (dict "root" .root "roles" (list "prefill" "decode" "mixed")) | nindent 8 }}
  ports:
    {{- include "baton.readPorts" .root | nindent 4 }}
{{- end }}
{{- if and $policy.etcd $values.etcd.endpoints (ne .component "test") }}
- to:
    {{- toYaml $policy.etcd | nindent 4 }}
  ports:
    {{- range include "baton.etcdPorts" .root | splitList " " }}
    - port: {{ int . }}
    {{- end }}
{{- end }}
{{- if and $policy.modelSource (ne .component "test") (has $values.model.source (list "fetch" "download")) }}
- to:
    {{- toYaml $policy.modelSource | nindent 4 }}
  ports:
    {{- range $policy.modelSourcePorts }}
    - port: {{ int . }}
    {{- end }}
{{- end }}
{{- if and $policy.collector $values.tracing.enabled (eq .component "router") }}
- to:
    {{- toYaml $policy.collector | nindent 4 }}
  ports:
    - port: {{ include "baton.collectorPort" .root }}
{{- end }}
{{- end -}}

{{/* The ports of the etcd's members, as words. */}}
{{- define "baton.etcdPorts" -}}
{{- $ports := list -}}
{{- range .Values.etcd.endpoints -}}
{{- $ports = append $ports (regexFind "[0-9]+$" .) -}}
{{- end -}}
{{- join " " (uniq $ports) -}}
{{- end -}}

{{/* The port of the collector's URL. */}}
{{- define "baton.collectorPort" -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .Values.tracing.endpoint).host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (hasPrefix "https:" .Values.tracing.endpoint)) $port -}}
{{- end -}}
