{{/* The pods of router and workers. */}}

{{/* Whether a process lives: its loop progresses. It does not ask whether the process can serve, because a worker that waits
for the router must not be started again for it. */}}
{{- define "baton.livenessAction" -}}
httpGet:
  path: /healthz
  port: admin
{{- end -}}

{{/* Whether a process has started. The admin port of a worker answers before its model is loaded, so what counts is its gRPC
port, which it opens then. A router has no model to load. */}}
{{- define "baton.startupAction" -}}
{{- if eq .component "router" -}}
{{- include "baton.livenessAction" . -}}
{{- else -}}
tcpSocket:
  port: grpc
{{- end -}}
{{- end -}}

{{/* Whether a process can serve: a router while some workers can take requests, a worker while it is a member of the cluster
and its engine progresses. The kubelet speaks no TLS to gRPC, so then the router's container asks itself as its clients do;
a worker's admin port gives the same answer as its gRPC port, where nobody is a client. */}}
{{- define "baton.readinessAction" -}}
{{- if and .root.Values.tls.enabled (eq .component "router") -}}
exec:
  command:
    - baton
    - health
    - --target={{ ternary "[::1]" "127.0.0.1" (eq .root.Values.bind "[::]") }}:{{ int .root.Values.ports.grpc }}
    - --service=baton.v1.GenerationService
    {{- include "baton.tlsClientFlags" .root | nindent 4 }}
{{- else if .root.Values.tls.enabled -}}
httpGet:
  path: /readyz
  port: admin
{{- else -}}
grpc:
  {{- if eq .component "router" }}
  port: {{ int .root.Values.ports.grpc }}
  service: baton.v1.GenerationService
  {{- else }}
  port: {{ int .root.Values.ports.worker }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Arguments: root, component, workload, settings. */}}
{{- define "baton.podTemplate" -}}
{{- $root := .root -}}
{{- $settings := .settings -}}
{{- $image := mergeOverwrite (deepCopy $root.Values.image) (deepCopy $settings.image) -}}
metadata:
  labels:
    {{- include "baton.podLabels" . | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: baton
    {{- with $settings.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "baton.serviceAccountName" $root }}
  automountServiceAccountToken: false
  # Variables such as BATON_ROUTER_PORT, which Kubernetes would make of the services' names, are not Baton's.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "baton.graceSeconds" $settings }}
  securityContext:
    {{- toYaml $settings.podSecurityContext | nindent 4 }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $settings.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $settings.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $settings.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $settings.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "baton.affinity" . }}
  affinity:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with include "baton.topologySpread" . }}
  topologySpreadConstraints:
    {{- . | nindent 4 }}
  {{- end }}
  {{- with include "baton.modelInitContainers" . }}
  initContainers:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: baton
      image: {{ include "baton.image" (dict "root" $root "image" $image "tag" $root.Chart.AppVersion) }}
      imagePullPolicy: {{ $image.pullPolicy }}
      command: [baton]
      args:
        {{- include "baton.arguments" . | nindent 8 }}
      env:
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        {{- with include "baton.environment" . }}
        {{- . | nindent 8 }}
        {{- end }}
      ports:
        - name: grpc
          containerPort: {{ ternary $root.Values.ports.grpc $root.Values.ports.worker (eq .component "router") | int }}
        {{- if eq .component "router" }}
        - name: http
          containerPort: {{ int $root.Values.ports.http }}
        - name: cluster
          containerPort: {{ int $root.Values.ports.cluster }}
        {{- end }}
        - name: admin
          containerPort: {{ int $root.Values.ports.admin }}
      startupProbe:
        {{- include "baton.startupAction" . | nindent 8 }}
        periodSeconds: {{ int $settings.probes.startup.periodSeconds }}
        timeoutSeconds: {{ int $settings.probes.liveness.timeoutSeconds }}
        failureThreshold: {{ int $settings.probes.startup.failureThreshold }}
      livenessProbe:
        {{- include "baton.livenessAction" . | nindent 8 }}
        periodSeconds: {{ int $settings.probes.liveness.periodSeconds }}
        timeoutSeconds: {{ int $settings.probes.liveness.timeoutSeconds }}
        failureThreshold: {{ int $settings.probes.liveness.failureThreshold }}
      readinessProbe:
        {{- include "baton.readinessAction" . | nindent 8 }}
        periodSeconds: {{ int $settings.probes.readiness.periodSeconds }}
        timeoutSeconds: {{ int $settings.probes.readiness.timeoutSeconds }}
        failureThreshold: {{ int $settings.probes.readiness.failureThreshold }}
      {{- if gt (int $settings.drain.preStopSeconds) 0 }}
      lifecycle:
        preStop:
          {{- if eq $settings.drain.preStopAction "sleep" }}
          sleep:
            seconds: {{ int $settings.drain.preStopSeconds }}
          {{- else }}
          exec:
            command: [sleep, {{ int $settings.drain.preStopSeconds | quote }}]
          {{- end }}
      {{- end }}
      resources:
        {{- include "baton.resources" $settings | nindent 8 }}
      securityContext:
        {{- toYaml $settings.containerSecurityContext | nindent 8 }}
      volumeMounts:
        {{- include "baton.modelMount" $root | nindent 8 }}
        - name: shm
          mountPath: /dev/shm
        - name: tmp
          mountPath: /tmp
        {{- with include "baton.secretMounts" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with $settings.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- include "baton.modelVolume" $root | nindent 4 }}
    - name: shm
      emptyDir:
        medium: Memory
        sizeLimit: {{ $settings.shmSize }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ $settings.tmpSize }}
    {{- with include "baton.secretVolumes" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- with $settings.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Resources with the devices. A device is asked for by its limit. */}}
{{- define "baton.resources" -}}
{{- $resources := deepCopy .resources -}}
{{- range $device := list .gpu .rdma -}}
{{- if gt (int $device.count) 0 -}}
{{- $_ := set $resources.limits $device.resource (int $device.count) -}}
{{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* Environment besides POD_IP. Spans are the router's alone. */}}
{{- define "baton.environment" -}}
{{- range $name, $value := .settings.ucx }}
- name: {{ $name }}
  value: {{ include "baton.text" $value | quote }}
{{- end }}
{{- if and .root.Values.tracing.enabled (eq .component "router") }}
{{ include "baton.tracingEnvironment" . }}
{{- end }}
{{- with .settings.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "baton.podName" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end -}}

{{- define "baton.tracingEnvironment" -}}
{{- $tracing := .root.Values.tracing -}}
{{ include "baton.podName" . }}
- name: OTEL_SERVICE_NAME
  value: baton-router
- name: OTEL_RESOURCE_ATTRIBUTES
  {{- $attributes := printf "k8s.namespace.name=%s,k8s.pod.name=$(POD_NAME)" .root.Release.Namespace }}
  {{- range $name, $value := $tracing.resourceAttributes }}
  {{- $attributes = printf "%s,%s=%s" $attributes $name $value }}
  {{- end }}
  value: {{ $attributes | quote }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ $tracing.endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ $tracing.protocol }}
- name: OTEL_TRACES_SAMPLER
  value: {{ $tracing.sampler }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ $tracing.samplerArg | quote }}
{{- with $tracing.headersSecret }}
{{- if .name }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .name }}
      key: {{ .key }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "baton.affinity" -}}
{{- if .settings.affinity -}}
{{- toYaml .settings.affinity -}}
{{- else if and .settings.topology.nearKey (ne .component "router") -}}
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 50
      podAffinityTerm:
        topologyKey: {{ .settings.topology.nearKey }}
        labelSelector:
          matchLabels:
            {{- include "baton.releaseLabels" .root | nindent 12 }}
          matchExpressions:
            - key: app.kubernetes.io/component
              operator: In
              values: [prefill, decode, mixed]
{{- end -}}
{{- end -}}

{{- define "baton.topologySpread" -}}
{{- if .settings.topologySpreadConstraints -}}
{{- toYaml .settings.topologySpreadConstraints -}}
{{- else if and .settings.topology.spreadKey (ne .component "router") -}}
- maxSkew: 1
  topologyKey: {{ .settings.topology.spreadKey }}
  whenUnsatisfiable: {{ .settings.topology.whenUnsatisfiable }}
  # Pods of an older template do not count, so that an upgrade spreads its own.
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "baton.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}
