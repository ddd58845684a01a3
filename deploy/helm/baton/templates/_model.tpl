{{/* How the model gets into a pod: a volume, and an init container where something has to be brought. */}}

{{- define "baton.modelVolume" -}}
{{- $model := .Values.model -}}
- name: model
  {{- if eq $model.source "pvc" }}
  persistentVolumeClaim:
    claimName: {{ $model.pvc.claimName }}
    readOnly: true
  {{- else if and (eq $model.source "image") (eq $model.image.mode "volume") }}
  image:
    reference: {{ include "baton.image" (dict "root" . "image" $model.image "tag" "") }}
    pullPolicy: {{ $model.image.pullPolicy }}
  {{- else if $model.cache.volume }}
  {{- toYaml $model.cache.volume | nindent 2 }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ $model.cache.sizeLimit }}
  {{- end }}
{{- end -}}

{{- define "baton.modelMount" -}}
- name: model
  mountPath: {{ .Values.model.mountPath }}
  readOnly: true
  {{- if and (eq .Values.model.source "pvc") .Values.model.pvc.subPath }}
  subPath: {{ .Values.model.pvc.subPath }}
  {{- end }}
{{- end -}}

{{/* Arguments: root, settings. Nothing when the model needs no bringing. A volume may be shared, and others read the
model while it is brought: a file gets its bytes under a name with the pod's in it, and its own name when it is whole. */}}
{{- define "baton.modelInitContainers" -}}
{{- $root := .root -}}
{{- $model := .root.Values.model -}}
{{- $copied := and (eq $model.source "image") (eq $model.image.mode "copy") -}}
{{- if or $copied (has $model.source (list "fetch" "download")) -}}
- name: model
  {{- if eq $model.source "fetch" }}
  {{- $values := $root.Values }}
  {{- $tag := printf "%s-fetch" (default $root.Chart.AppVersion $values.image.tag) }}
  {{- $image := mergeOverwrite (omit $values.image "tag" "digest") $model.fetch.image }}
  image: {{ include "baton.image" (dict "root" $root "image" $image "tag" $tag) }}
  imagePullPolicy: {{ $image.pullPolicy }}
  command: [baton, fetch-model, {{ $model.fetch.name }}]
  env:
    - name: BATON_MODEL_STORE
      value: {{ $model.mountPath }}
    - name: HOME
      value: /tmp
    {{- with $model.fetch.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- else if eq $model.source "download" }}
  image: {{ include "baton.image" (dict "root" $root "image" $model.download.image "tag" "") }}
  imagePullPolicy: {{ default "IfNotPresent" $model.download.image.pullPolicy }}
  # A container that starts again finds the file of its predecessor, or begins anew.
  command:
    - sh
    - -ec
    - |
      if echo "$SHA256  $TARGET" | sha256sum -c - >/dev/null 2>&1; then exit 0; fi
      part="$TARGET.$POD_NAME"
      trap 'rm -f "$part"' EXIT
      curl --fail --silent --show-error --location --retry 5 --retry-connrefused --output "$part" "$URL"
      echo "$SHA256  $part" | sha256sum -c -
      chmod 644 "$part"
      mv -f "$part" "$TARGET"
  env:
    {{- include "baton.podName" . | nindent 4 }}
    - name: URL
      value: {{ $model.download.url | quote }}
    - name: SHA256
      value: {{ $model.download.sha256 | quote }}
    - name: TARGET
      value: {{ include "baton.modelPath" $root | quote }}
    {{- with $model.download.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- else }}
  image: {{ include "baton.image" (dict "root" $root "image" $model.image "tag" "") }}
  imagePullPolicy: {{ $model.image.pullPolicy }}
  command:
    - sh
    - -ec
    - |
      [ -d "$SOURCE" ] || { echo "the image of the model has no folder $SOURCE" >&2; exit 1; }
      trap 'rm -f "$part"' EXIT
      copy() {
        mkdir -p "$2"
        for from in "$1"/* "$1"/.[!.]* "$1"/..?*; do
          if [ -d "$from" ]; then
            copy "$from" "$2/${from##*/}"
          elif [ -e "$from" ] || [ -L "$from" ]; then
            part="$2/${from##*/}.$POD_NAME"
            cp -L "$from" "$part"
            mv -f "$part" "$2/${from##*/}"
          fi
        done
      }
      copy "$SOURCE" "$TARGET"
  env:
    {{- include "baton.podName" . | nindent 4 }}
    - name: SOURCE
      value: {{ $model.image.path | quote }}
    - name: TARGET
      value: {{ $model.mountPath | quote }}
  {{- end }}
  resources:
    {{- toYaml $model.initResources | nindent 4 }}
  securityContext:
    {{- toYaml .settings.containerSecurityContext | nindent 4 }}
  volumeMounts:
    - name: model
      mountPath: {{ $model.mountPath }}
    - name: tmp
      mountPath: /tmp
{{- end -}}
{{- end -}}
