{{/* What a pool is scaled by. Prefill is bound by computing, so what counts is how many prompt tokens wait. Decode is bound
by memory and by the slots of its batch, so what counts is how full these are. The load of the CPU says nothing about either:
a worker computes at full speed whether it has one request or many. */}}

{{- define "baton.hpaMetrics" -}}
{{- $targets := .settings.autoscaling.targets -}}
{{- if ne .settings.role "decode" }}
- type: Pods
  pods:
    metric:
      name: baton_pending_prompt_tokens
    target:
      type: AverageValue
      averageValue: {{ int64 $targets.pendingPromptTokens | quote }}
{{- end }}
{{- if ne .settings.role "prefill" }}
- type: Pods
  pods:
    metric:
      name: baton_engine_sequences
      selector:
        matchLabels:
          state: running
    target:
      type: AverageValue
      averageValue: {{ int64 $targets.runningSequences | quote }}
# An adapter's rule makes it of baton_kv_blocks: docs/kubernetes.md has it.
- type: Pods
  pods:
    metric:
      name: baton_kv_usage_ratio
    target:
      type: AverageValue
      averageValue: {{ printf "%dm" (mulf 1000 $targets.kvUsage | int) }}
{{- end }}
{{- end -}}

{{- define "baton.kedaTriggers" -}}
{{- $scaling := .settings.autoscaling -}}
{{- $object := include "baton.objectName" (dict "root" .root "suffix" .workload) -}}
{{- $pods := printf `namespace="%s",pod=~"%s-[a-z0-9]+-[a-z0-9]+"` .root.Release.Namespace $object -}}
{{- $queries := list -}}
{{- if ne .settings.role "decode" -}}
{{- $queries = append $queries (dict "query" (printf `sum(baton_pending_prompt_tokens{%s})` $pods)
    "threshold" (int64 $scaling.targets.pendingPromptTokens | toString) "type" "AverageValue") -}}
{{- end -}}
{{- if ne .settings.role "prefill" -}}
{{- $queries = append $queries (dict "query" (printf `sum(baton_engine_sequences{state="running",%s})` $pods)
    "threshold" (int64 $scaling.targets.runningSequences | toString) "type" "AverageValue") -}}
{{- $queries = append $queries (dict
    "query" (printf `sum(baton_kv_blocks{state="used",%s}) / sum(baton_kv_blocks{%s})` $pods $pods)
    "threshold" (toString $scaling.targets.kvUsage) "type" "Value") -}}
{{- end -}}
{{- range $queries }}
- type: prometheus
  metricType: {{ .type }}
  metadata:
    serverAddress: {{ $scaling.keda.serverAddress | quote }}
    query: {{ .query | quote }}
    threshold: {{ .threshold | quote }}
  {{- with $scaling.keda.authenticationRef }}
  authenticationRef:
    name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A pool grows at once and shrinks by one pod in the time that a pod has to drain. */}}
{{- define "baton.scalingBehavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - type: Percent
      value: 100
      periodSeconds: 30
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - type: Pods
      value: 1
      periodSeconds: {{ min 1800 (include "baton.graceSeconds" . | int) }}
{{- end -}}
