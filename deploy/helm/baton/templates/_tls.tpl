{{/* Certificates and API keys: which Secrets hold them, and where the containers see them. Secrets are mounted as folders and
never by subPath, because the kubelet renews folders alone; the processes read the files again when they change. The mode
0440, with the group that fsGroup names, lets the container's user read them and nobody else: Baton refuses a private key or
keys of the API that everybody may read. */}}

{{- define "baton.tlsFolder" -}}/etc/baton/tls{{- end -}}

{{/* Name of the Secret that holds the certificate of a role: router, prefill, decode, mixed or client. Arguments: root, role. */}}
{{- define "baton.tlsSecret" -}}
{{- $tls := .root.Values.tls -}}
{{- if $tls.certManager.enabled -}}
{{- include "baton.objectName" (dict "root" .root "suffix" (printf "%s-tls" .role)) -}}
{{- else -}}
{{- default $tls.secretName (get $tls.secrets .role) -}}
{{- end -}}
{{- end -}}

{{/* Roles that need a certificate, as words. The client is the pod of `helm test`. */}}
{{- define "baton.tlsRoles" -}}
{{- $roles := append (include "baton.roles" . | splitList " ") "router" -}}
{{- if and .Values.test.enabled (eq .Values.tls.clientAuth "require") -}}
{{- $roles = append $roles "client" -}}
{{- end -}}
{{- join " " $roles -}}
{{- end -}}

{{/* Name by which the router's certificate is checked where the address of a call is another one. */}}
{{- define "baton.tlsServerName" -}}
{{- default (include "baton.objectName" (dict "root" . "suffix" "router")) .Values.tls.serverName -}}
{{- end -}}

{{/* Flags of a process or a command that shows a certificate. */}}
{{- define "baton.tlsFlags" -}}
- --tls-cert={{ include "baton.tlsFolder" . }}/tls.crt
- --tls-key={{ include "baton.tlsFolder" . }}/tls.key
{{ include "baton.tlsAuthorityFlag" . }}
{{- end -}}

{{- define "baton.tlsAuthorityFlag" -}}
- --tls-ca={{ include "baton.tlsFolder" . }}/ca.crt
{{- end -}}

{{/* Flags of a client of the router, such as the router's own probe. */}}
{{- define "baton.tlsClientFlags" -}}
{{- include (ternary "baton.tlsFlags" "baton.tlsAuthorityFlag" (eq .Values.tls.clientAuth "require")) . }}
- --tls-server-name={{ include "baton.tlsServerName" . }}
{{- end -}}

{{/* Arguments: root, component. */}}
{{- define "baton.secretVolumes" -}}
{{- if .root.Values.tls.enabled }}
{{- $all := list "tls.crt" "tls.key" "ca.crt" }}
{{- if ne .component "test" }}
{{- include "baton.secretVolume" (dict "name" "tls" "secret" (include "baton.tlsSecret" (dict "root" .root "role" .component)) "keys" $all) }}
{{- else if eq .root.Values.tls.clientAuth "require" }}
{{- include "baton.secretVolume" (dict "name" "tls" "secret" (include "baton.tlsSecret" (dict "root" .root "role" "client")) "keys" $all) }}
{{- else }}
{{- include "baton.secretVolume" (dict "name" "tls" "secret" (include "baton.tlsSecret" (dict "root" .root "role" "router")) "keys" (list "ca.crt")) }}
{{- end }}
{{- end }}
{{- with .root.Values.apiKeys }}
{{- if and .secretName (eq $.component "router") }}
{{- include "baton.secretVolume" (dict "name" "api-keys" "secret" .secretName "keys" (list .key)) }}
{{- end }}
{{- end }}
{{- with .root.Values.etcd }}
{{- if and .endpoints .secretName (ne $.component "test") }}
{{- include "baton.secretVolume" (dict "name" "etcd" "secret" .secretName "keys" (ternary (list "tls.crt" "tls.key" "ca.crt") (list "ca.crt") .clientCertificate)) }}
{{- end }}
{{- end }}
{{- with .root.Values.test.apiKeySecret }}
{{- if and .name (eq $.component "test") }}
{{- include "baton.secretVolume" (dict "name" "api-key" "secret" .name "keys" (list .key)) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Arguments: name, secret, keys. */}}
{{- define "baton.secretVolume" }}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - key: {{ . | quote }}
        path: {{ . | quote }}
      {{- end }}
{{- end -}}

{{/* Arguments: root, component. */}}
{{- define "baton.secretMounts" -}}
{{- range include "baton.secretVolumes" . | fromYamlArray }}
- name: {{ .name }}
  mountPath: /etc/baton/{{ .name }}
  readOnly: true
{{- end }}
{{- end -}}
