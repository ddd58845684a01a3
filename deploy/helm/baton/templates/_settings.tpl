{{/* What the values come to: the settings of router and pools, and what follows from them. */}}

{{/* The router's settings as JSON. */}}
{{- define "baton.router" -}}
{{- mergeOverwrite (deepCopy .Values.defaults) (deepCopy .Values.router) | toJson -}}
{{- end -}}

{{/* The settings of every enabled pool, by name, as JSON. */}}
{{- define "baton.pools" -}}
{{- $pools := dict -}}
{{- range $name, $pool := .Values.pools -}}
{{- if and $pool (dig "enabled" true $pool) -}}
{{- $_ := set $pools $name (mergeOverwrite (deepCopy $.Values.defaults) (deepCopy $.Values.workers) (deepCopy $pool)) -}}
{{- end -}}
{{- end -}}
{{- toJson $pools -}}
{{- end -}}

{{/* Roles that the enabled pools have, as words. */}}
{{- define "baton.roles" -}}
{{- $roles := list -}}
{{- range $name, $pool := include "baton.pools" . | fromJson -}}
{{- $roles = append $roles $pool.role -}}
{{- end -}}
{{- $roles | uniq | sortAlpha | join " " -}}
{{- end -}}

{{/* Not empty when a pool moves KV by UCX. With TLS KV travels over gRPC, because UCX does not encrypt. Arguments: root,
settings. */}}
{{- define "baton.usesUcx" -}}
{{- if or (not .root.Values.tls.enabled) (get .settings.flags "insecure-kv-transport") -}}true{{- end -}}
{{- end -}}

{{/* Not empty when some enabled pool does. */}}
{{- define "baton.somePoolUsesUcx" -}}
{{- range $name, $settings := include "baton.pools" . | fromJson -}}
{{- include "baton.usesUcx" (dict "root" $ "settings" $settings) -}}
{{- end -}}
{{- end -}}

{{/* A value as text. A template's own way to write 8589934592 is 8.589934592e+09, which few read as they should. */}}
{{- define "baton.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* Bytes of a size such as 512MiB, 2Gi, 1e9 or 4096. */}}
{{- define "baton.bytes" -}}
{{- $units := dict "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $text := include "baton.text" . -}}
{{- $number := regexFind "^[0-9.]+([eE][0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text | trimSuffix "B" -}}
{{- mulf (float64 $number) (float64 (default 1 (get $units $unit))) | int64 -}}
{{- end -}}

{{/* Whole CPUs of a limit such as 2, "1.5" or 1500m, at least one. */}}
{{- define "baton.wholeCpus" -}}
{{- $text := toString . -}}
{{- $cpus := ternary (divf (float64 (trimSuffix "m" $text)) 1000) (float64 $text) (hasSuffix "m" $text) -}}
{{- max 1 (floor $cpus | int) -}}
{{- end -}}

{{/* Seconds that a pod needs from being told to end until it has ended. Argument: settings. The 10 s are for what Baton does
after its time-out: cutting streams and closing. */}}
{{- define "baton.drainSeconds" -}}
{{- add (int64 .drain.preStopSeconds) (divf (float64 .drain.timeoutMs) 1000 | ceil | int64) 10 -}}
{{- end -}}

{{- define "baton.graceSeconds" -}}
{{- default (include "baton.drainSeconds" . | int64) (int64 .terminationGracePeriodSeconds) -}}
{{- end -}}

{{/* Path of the model in the containers. */}}
{{- define "baton.modelPath" -}}
{{- $model := .Values.model -}}
{{- $file := $model.file -}}
{{- if and (not $file) (eq $model.source "fetch") -}}
{{- $file = printf "%s.gguf" $model.fetch.name -}}
{{- else if and (not $file) (eq $model.source "download") -}}
{{- $file = regexReplaceAll "[?#].*$" $model.download.url "" | base -}}
{{- end -}}
{{- printf "%s/%s" $model.mountPath $file | trimSuffix "/" -}}
{{- end -}}
