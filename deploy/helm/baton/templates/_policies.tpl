{{/* Parts of NetworkPolicies. An empty list of peers would mean everybody, so a rule without peers is left out. */}}

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

{{- define "baton.dnsEgress" -}}
{{- with .Values.networkPolicy.dns -}}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $.Values.networkPolicy.dnsPorts }}
    - port: {{ int . }}
      protocol: UDP
    - port: {{ int . }}
      protocol: TCP
    {{- end }}
{{- end -}}
{{- end -}}

{{/* The port of the collector's URL. */}}
{{- define "baton.collectorPort" -}}
{{- $host := (urlParse .Values.tracing.endpoint).host -}}
{{- $port := regexFind ":[0-9]+$" $host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (hasPrefix "https" .Values.tracing.endpoint)) $port -}}
{{- end -}}
