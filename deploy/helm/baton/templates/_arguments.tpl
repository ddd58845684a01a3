{{/* Arguments of the processes, one a line, as YAML. */}}

{{/* The flags of a map, in alphabetic order. `false` leaves a switch out. */}}
{{- define "baton.flags" -}}
{{- range $name, $value := . }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ $name }}
{{- end }}
{{- else if kindIs "float64" $value }}
- {{ printf "--%s=%s" $name (include "baton.text" $value) | quote }}
{{- else }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What router and workers have in common. Arguments: root, settings. */}}
{{- define "baton.commonArguments" -}}
{{- $values := .root.Values }}
- --bind={{ $values.bind }}
- --admin-port={{ int $values.ports.admin }}
- {{ printf "--model=%s" (include "baton.modelPath" .root) | quote }}
{{- with $values.model.servedName }}
- {{ printf "--served-model-name=%s" . | quote }}
{{- end }}
- --drain-timeout-ms={{ int64 .settings.drain.timeoutMs }}
{{- if $values.tls.enabled }}
{{ include "baton.tlsFlags" .root }}
{{- end }}
{{- end -}}

{{/* How the process finds the others by an etcd. */}}
{{- define "baton.etcdFlags" -}}
{{- $etcd := .Values.etcd -}}
- {{ printf "--etcd=%s" (join "," $etcd.endpoints) | quote }}
- {{ printf "--etcd-prefix=%s" (default (printf "/baton/%s/%s" .Release.Namespace .Release.Name) $etcd.prefix) | quote }}
{{- if $etcd.secretName }}
- --etcd-ca=/etc/baton/etcd/ca.crt
{{- if $etcd.clientCertificate }}
- --etcd-cert=/etc/baton/etcd/tls.crt
- --etcd-key=/etc/baton/etcd/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{/* The pod's own address, which it tells the others because it listens on all. */}}
{{- define "baton.advertiseFlag" -}}
- --advertise={{ ternary "[$(POD_IP)]" "$(POD_IP)" (eq .Values.bind "[::]") }}
{{- end -}}

{{/* Arguments: root, component, settings. */}}
{{- define "baton.arguments" -}}
{{- include (ternary "baton.routerArguments" "baton.workerArguments" (eq .component "router")) . -}}
{{- end -}}

{{- define "baton.routerArguments" -}}
{{- $values := .root.Values -}}
- router
{{- include "baton.commonArguments" . }}
- --grpc-port={{ int $values.ports.grpc }}
- --http-port={{ int $values.ports.http }}
- --cluster-port={{ int $values.ports.cluster }}
{{- if $values.etcd.endpoints }}
{{ include "baton.etcdFlags" .root }}
{{ include "baton.advertiseFlag" .root }}
{{- end }}
{{- if $values.tls.enabled }}
- --tls-client-auth={{ $values.tls.clientAuth }}
{{- end }}
{{- with $values.apiKeys }}
{{- if .secretName }}
- {{ printf "--api-keys=/etc/baton/api-keys/%s" .key | quote }}
{{- end }}
{{- end }}
{{- with .settings.adminHosts }}
- {{ printf "--admin-hosts=%s" (join "," .) | quote }}
{{- end }}
{{- if and $values.tracing.enabled $values.tracing.content }}
- --trace-content
{{- end }}
{{- include "baton.flags" .settings.flags }}
{{- end -}}

{{/* A worker listens on all addresses, so that `kubectl port-forward` reaches it, and
tells the others the pod's own. */}}
{{- define "baton.workerArguments" -}}
{{- $values := .root.Values -}}
- {{ .settings.role }}-worker
{{- if $values.etcd.endpoints }}
{{ include "baton.etcdFlags" .root }}
{{- else }}
- --router={{ include "baton.objectName" (dict "root" .root "suffix" "cluster") }}:{{ int $values.ports.cluster }}
{{- end }}
{{- include "baton.commonArguments" . }}
{{ include "baton.advertiseFlag" .root }}
- --grpc-port={{ int $values.ports.worker }}
- --transfer-ports={{ int $values.ports.transfer.first }}-{{ int $values.ports.transfer.last }}
- --numerics={{ $values.model.numerics }}
- --weights={{ $values.model.weights }}
- --kv-dtype={{ $values.model.kvDtype }}
{{- if not (hasKey .settings.flags "threads") }}
- --threads={{ include "baton.wholeCpus" .settings.resources.limits.cpu }}
{{- end }}
{{- include "baton.flags" .settings.flags }}
{{- end -}}
