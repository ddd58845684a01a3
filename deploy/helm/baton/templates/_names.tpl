{{/* Names, labels and images. */}}

{{- define "baton.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{- .Release.Name -}}{{- else -}}{{- printf "%s-%s" .Release.Name $name -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The name of an object. Arguments: root, suffix ("" for the release as a whole). At most 46 characters, so that the names
of a Deployment's pods, which have 17 more, are host names of at most 63. A digest stands for what was cut off, so that
two releases whose names begin alike do not share objects. */}}
{{- define "baton.objectName" -}}
{{- $full := include "baton.fullname" .root -}}
{{- $tail := ternary "" (printf "-%s" .suffix) (empty .suffix) -}}
{{- $room := sub 46 (len $tail) | int -}}
{{- if gt (len $full) $room -}}
{{- printf "%s-%s%s" ($full | trunc (sub $room 9 | int) | trimSuffix "-") ($full | sha256sum | trunc 8) $tail -}}
{{- else -}}
{{- printf "%s%s" $full $tail -}}
{{- end -}}
{{- end -}}

{{- define "baton.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "baton.objectName" (dict "root" . "suffix" "")) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of this release. Nothing here may ever change: the selectors of Deployments cannot. */}}
{{- define "baton.releaseLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What selects the pods of one workload. Arguments: root, workload (`router`, `test`, or the name of a pool). It does not
have the role, so that a pool can get another one. */}}
{{- define "baton.selectorLabels" -}}
{{ include "baton.releaseLabels" .root }}
baton/workload: {{ .workload }}
{{- end -}}

{{/* Labels of any object. Arguments: root, component. */}}
{{- define "baton.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_"))
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/part-of" "baton"
  "app.kubernetes.io/component" .component -}}
{{- $own := include "baton.releaseLabels" .root | fromYaml -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.commonLabels) $labels $own) -}}
{{- end -}}

{{/* Labels of a pod. Arguments: root, component, workload, settings. The chart's version is not among them, because a new chart
is no reason to start workers again. */}}
{{- define "baton.podLabels" -}}
{{- $labels := dict "app.kubernetes.io/part-of" "baton" "app.kubernetes.io/component" .component -}}
{{- $selector := include "baton.selectorLabels" . | fromYaml -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.commonLabels) .settings.podLabels $labels $selector) -}}
{{- end -}}

{{/* The reference of an image. Arguments: root, image, tag (the default). */}}
{{- define "baton.image" -}}
{{- $registry := default .root.Values.imageRegistry .image.registry -}}
{{- $name := ternary .image.repository (printf "%s/%s" $registry .image.repository) (empty $registry) -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .tag .image.tag) -}}
{{- end -}}
{{- end -}}
