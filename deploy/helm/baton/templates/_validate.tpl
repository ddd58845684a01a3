{{/* What the schema cannot say. Each message names the value, says what is wrong, and what to do. */}}

{{- define "baton.validate" -}}
{{- $errors := list -}}
{{- if and (ne (int .Values.router.replicas) 1) (not .Values.etcd.endpoints) -}}
{{- $errors = append $errors "router.replicas: workers find one router by the name of its service. Set it to 1, or name an etcd in etcd.endpoints, by which they find several" -}}
{{- end -}}
{{- if and .Values.etcd.clientCertificate (not .Values.etcd.secretName) -}}
{{- $errors = append $errors "etcd.clientCertificate: it needs etcd.secretName, the Secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]" (include "baton.fullname" .)) -}}
{{- $errors = append $errors (printf "the release's name %q begins with no letter, but names of services have to: set fullnameOverride" .Release.Name) -}}
{{- end -}}
{{- $errors = concat $errors (include "baton.validatePools" . | fromJsonArray) (include "baton.validateModel" . | fromJsonArray) (include "baton.validateTls" . | fromJsonArray) (include "baton.validateRest" . | fromJsonArray) -}}
{{- if $errors -}}
{{- fail (printf "\n\nThe values do not fit together:\n- %s\n" (join "\n- " $errors)) -}}
{{- end -}}
{{- end -}}

{{- define "baton.validatePools" -}}
{{- $errors := list -}}
{{- $roles := include "baton.roles" . | splitList " " -}}
{{- if not (or (has "prefill" $roles) (has "mixed" $roles)) -}}
{{- $errors = append $errors "pools: no enabled pool computes prompts. Add one whose role is prefill or mixed" -}}
{{- end -}}
{{- if not (or (has "decode" $roles) (has "mixed" $roles)) -}}
{{- $errors = append $errors "pools: no enabled pool generates. Add one whose role is decode or mixed" -}}
{{- end -}}
{{- if include "baton.somePoolUsesUcx" . -}}
{{- range $name, $settings := include "baton.pools" . | fromJson -}}
{{- if not (include "baton.usesUcx" (dict "root" $ "settings" $settings)) -}}
{{- $errors = append $errors (printf "pools.%s.flags.insecure-kv-transport: others have it, and move KV in another way than this pool. Set it in workers.flags, for all or for none" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $settings := include "baton.pools" . | fromJson -}}
{{- if has $name (list "router" "cluster" "test") -}}
{{- $errors = append $errors (printf "pools.%s: the chart has an object of this name. Choose another name" $name) -}}
{{- end -}}
{{- $scaling := $settings.autoscaling -}}
{{- if and (ne $scaling.kind "none") (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- $errors = append $errors (printf "pools.%s.autoscaling: minReplicas (%d) is above maxReplicas (%d)" $name (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if and (eq $scaling.kind "keda") (not $scaling.metrics) (not $scaling.keda.serverAddress) -}}
{{- $errors = append $errors (printf "pools.%s.autoscaling.keda.serverAddress: KEDA needs the address of Prometheus, such as http://prometheus-operated.monitoring:9090" $name) -}}
{{- end -}}
{{- $strategy := $settings.strategy -}}
{{- if and (has (toString $strategy.maxSurge) (list "0" "0%")) (has (toString $strategy.maxUnavailable) (list "0" "0%")) -}}
{{- $errors = append $errors (printf "pools.%s.strategy: with maxSurge and maxUnavailable both 0 no pod could ever be replaced" $name) -}}
{{- end -}}
{{- if not (or (hasKey $settings.resources.limits "cpu") (hasKey $settings.flags "threads")) -}}
{{- $errors = append $errors (printf "pools.%s: without resources.limits.cpu nothing says how many threads a worker has. Set the limit, or flags.threads" $name) -}}
{{- end -}}
{{- if and (hasKey $settings.flags "gpu-memory-utilization") (hasKey $settings.flags "kv-memory") -}}
{{- $errors = append $errors (printf "pools.%s.flags: kv-memory (%v) and gpu-memory-utilization (%v) exclude each other. Remove one; workers.flags.kv-memory: null removes the chart's" $name (index $settings.flags "kv-memory") (index $settings.flags "gpu-memory-utilization")) -}}
{{- end -}}
{{- $kvMemory := include "baton.bytes" (index $settings.flags "kv-memory" | default "512MiB") | int64 -}}
{{- $shm := include "baton.bytes" $settings.shmSize | int64 -}}
{{- $limit := include "baton.bytes" (default "0" $settings.resources.limits.memory) | int64 -}}
{{- if and (gt $limit 0) (ge (add $kvMemory $shm) $limit) -}}
{{- $errors = append $errors (printf "pools.%s: flags.kv-memory (%v) and shmSize (%s) leave nothing of resources.limits.memory (%v) to the model. Raise the limit or lower kv-memory" $name (index $settings.flags "kv-memory") $settings.shmSize (include "baton.text" $settings.resources.limits.memory)) -}}
{{- end -}}
{{- if not (include "baton.usesUcx" (dict "root" $ "settings" $settings)) -}}
{{- if eq (default "auto" $settings.flags.transport) "tcp" -}}
{{- $errors = append $errors (printf "pools.%s.flags.transport: tcp sends KV in plain text, which tls.enabled does not allow. Leave it out, so that KV travels over gRPC, or set flags.insecure-kv-transport on a network that nobody else reaches" $name) -}}
{{- end -}}
{{- if $settings.ucx -}}
{{- $errors = append $errors (printf "pools.%s.ucx: with tls.enabled KV travels over gRPC, and UCX is not used. Remove it, or set flags.insecure-kv-transport on a network that nobody else reaches" $name) -}}
{{- end -}}
{{- end -}}
{{- $errors = concat $errors (include "baton.validatePod" (dict "where" (printf "pools.%s" $name) "settings" $settings "root" $) | fromJsonArray) -}}
{{- end -}}
{{- $errors = concat $errors (include "baton.validatePod" (dict "where" "router" "settings" (include "baton.router" . | fromJson) "root" $) | fromJsonArray) -}}
{{- toJson $errors -}}
{{- end -}}

{{/* Arguments: where, settings, root. */}}
{{- define "baton.validatePod" -}}
{{- $errors := list -}}
{{- $grace := int64 .settings.terminationGracePeriodSeconds -}}
{{- $needed := include "baton.drainSeconds" .settings | int64 -}}
{{- if and (gt $grace 0) (lt $grace $needed) -}}
{{- $errors = append $errors (printf "%s.terminationGracePeriodSeconds: %d s would kill streams that may still run. drain.preStopSeconds (%d) and drain.timeoutMs (%d) need %d s: leave it at 0, or lower drain.timeoutMs" .where $grace (int .settings.drain.preStopSeconds) (int64 .settings.drain.timeoutMs) $needed) -}}
{{- end -}}
{{- if not (hasKey .settings.resources.limits "memory") -}}
{{- $errors = append $errors (printf "%s.resources.limits.memory: it is missing. Without it a pod could take the memory of its whole node" .where) -}}
{{- end -}}
{{- if and .root.Values.tls.enabled .settings.podSecurityContext.runAsUser (not .settings.podSecurityContext.fsGroup) -}}
{{- $errors = append $errors (printf "%s.podSecurityContext.fsGroup: it is missing. With tls.enabled it is the group by which user %d reads the key" .where (int64 .settings.podSecurityContext.runAsUser)) -}}
{{- end -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (deepCopy .settings.image) -}}
{{- if and (eq (toString $image.tag) "latest") (not $image.digest) -}}
{{- $errors = append $errors (printf "%s: the image's tag latest names no version that could be rolled back to. Give a version, or a digest" .where) -}}
{{- end -}}
{{- toJson $errors -}}
{{- end -}}

{{- define "baton.validateModel" -}}
{{- $errors := list -}}
{{- $model := .Values.model -}}
{{- if and (has $model.source (list "pvc" "image")) (not $model.file) -}}
{{- $errors = append $errors (printf "model.file: model.source %s does not say which file it is. Give the .gguf file or the directory below %s" $model.source $model.mountPath) -}}
{{- end -}}
{{- if and (eq $model.source "pvc") (not $model.pvc.claimName) -}}
{{- $errors = append $errors "model.pvc.claimName: it is missing. Name the PersistentVolumeClaim that holds the model" -}}
{{- end -}}
{{- if eq $model.source "image" -}}
{{- if not $model.image.repository -}}
{{- $errors = append $errors "model.image.repository: it is missing. Name the image that holds the model" -}}
{{- end -}}
{{- if or (eq $model.image.tag "latest") (and (not $model.image.tag) (not $model.image.digest)) -}}
{{- $errors = append $errors "model.image: give a tag that is not latest, or a digest: all pods need the same model" -}}
{{- end -}}
{{- end -}}
{{- if eq $model.source "download" -}}
{{- if not $model.download.url -}}
{{- $errors = append $errors "model.download.url: it is missing. Give the URL of a .gguf file" -}}
{{- end -}}
{{- if not $model.download.sha256 -}}
{{- $errors = append $errors "model.download.sha256: it is missing. Without it a pod would run whatever came" -}}
{{- end -}}
{{- if eq (toString $model.download.image.tag) "latest" -}}
{{- $errors = append $errors "model.download.image.tag: latest names no version. Give one, or a digest" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $model.numerics "fp32") (not (has $model.kvDtype (list "auto" "f32"))) -}}
{{- $errors = append $errors (printf "model.kvDtype: %s does not go with numerics fp32. Set it to auto or f32" $model.kvDtype) -}}
{{- end -}}
{{- if and (eq $model.numerics "exact") (eq $model.kvDtype "f32") -}}
{{- $errors = append $errors "model.kvDtype: f32 does not go with numerics exact. Set it to auto, bf16 or int8" -}}
{{- end -}}
{{- toJson $errors -}}
{{- end -}}

{{- define "baton.validateTls" -}}
{{- $errors := list -}}
{{- $tls := .Values.tls -}}
{{- $manager := $tls.certManager -}}
{{- $secrets := compact (append (values $tls.secrets) $tls.secretName) -}}
{{- if $tls.enabled -}}
{{- if and $manager.enabled $secrets -}}
{{- $errors = append $errors "tls: certManager makes the Secrets itself. Remove secretName and secrets, or set certManager.enabled to false" -}}
{{- end -}}
{{- if not $manager.enabled -}}
{{- range $role := include "baton.tlsRoles" . | splitList " " -}}
{{- if not (include "baton.tlsSecret" (dict "root" $ "role" $role)) -}}
{{- $errors = append $errors (printf "tls.secrets.%s: it is missing. Name the Secret with the certificate of this role, or give tls.secretName for all roles, or let tls.certManager make them" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $manager.enabled (not $manager.issuerRef.name) -}}
{{- $errors = append $errors "tls.certManager.issuerRef.name: it is missing. Name the Issuer or ClusterIssuer that signs the certificates" -}}
{{- end -}}
{{- if and $manager.enabled (not $manager.trustDomain) -}}
{{- $errors = append $errors "tls.certManager.trustDomain: it is missing. Give a name of your own, such as baton.example.com, which all roles have in common" -}}
{{- end -}}
{{- if ge (trimSuffix "h" $manager.renewBefore | int) (trimSuffix "h" $manager.duration | int) -}}
{{- $errors = append $errors (printf "tls.certManager.renewBefore: %s is not before the end of tls.certManager.duration (%s)" $manager.renewBefore $manager.duration) -}}
{{- end -}}
{{- if .Values.inferencePool.enabled -}}
{{- $errors = append $errors "inferencePool.enabled: gateways send plain text to an InferencePool, which a router with tls.enabled does not take. Let a route name the router's service instead" -}}
{{- end -}}
{{- else -}}
{{- if or $manager.enabled $secrets (eq $tls.clientAuth "require") -}}
{{- $errors = append $errors "tls: it has certificates or asks for them, but tls.enabled is false. Set it to true, or remove the others" -}}
{{- end -}}
{{- if .Values.apiKeys.secretName -}}
{{- $errors = append $errors "apiKeys.secretName: keys travel over TLS alone. Set tls.enabled to true as well" -}}
{{- end -}}
{{- end -}}
{{- $testKey := .Values.test.apiKeySecret.name -}}
{{- if and .Values.test.enabled .Values.apiKeys.secretName (not $testKey) -}}
{{- $errors = append $errors "test.apiKeySecret.name: it is missing. The router asks for keys, so name a Secret with one for the test, or set test.enabled to false" -}}
{{- end -}}
{{- if and $testKey (not .Values.apiKeys.secretName) -}}
{{- $errors = append $errors "test.apiKeySecret.name: the router asks for no key. Remove it, or name its keys by apiKeys.secretName" -}}
{{- end -}}
{{- toJson $errors -}}
{{- end -}}

{{- define "baton.validateRest" -}}
{{- $errors := list -}}
{{- $ports := .Values.ports -}}
{{- if lt (sub $ports.transfer.last $ports.transfer.first) 3 -}}
{{- $errors = append $errors (printf "ports.transfer: a worker that restarts needs four ports, but first (%d) and last (%d) leave fewer" (int $ports.transfer.first) (int $ports.transfer.last)) -}}
{{- end -}}
{{- range $name, $port := dict "worker" $ports.worker "admin" $ports.admin -}}
{{- if and (ge (int $port) (int $ports.transfer.first)) (le (int $port) (int $ports.transfer.last)) -}}
{{- $errors = append $errors (printf "ports.%s: %d lies in ports.transfer, which a worker uses for KV blocks" $name (int $port)) -}}
{{- end -}}
{{- end -}}
{{- if or (lt (list $ports.grpc $ports.http $ports.cluster $ports.admin | uniq | len) 4) (eq (int $ports.worker) (int $ports.admin)) -}}
{{- $errors = append $errors "ports: one process cannot listen twice at the same port. Give grpc, http, cluster and admin, and worker and admin, different ones" -}}
{{- end -}}
{{- $outside := false -}}
{{- range .Values.networkPolicy.clients -}}
{{- $outside = or $outside (hasKey . "ipBlock") -}}
{{- end -}}
{{- if and (has .Values.router.service.type (list "NodePort" "LoadBalancer")) .Values.networkPolicy.enabled (not $outside) -}}
{{- $errors = append $errors (printf "router.service.type: %s is for clients outside the cluster, whom networkPolicy.clients lets in by no ipBlock. Add one, such as ipBlock: {cidr: 192.0.2.0/24}, or set the type to ClusterIP" .Values.router.service.type) -}}
{{- end -}}
{{- if and .Values.tracing.enabled (not .Values.tracing.endpoint) -}}
{{- $errors = append $errors "tracing.endpoint: it is missing. Give the address of the collector, such as http://otel-collector.observability:4317" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- $errors = append $errors "monitoring: podMonitor and serviceMonitor would both scrape every pod. Enable one of them" -}}
{{- end -}}
{{- if and .Values.inferencePool.enabled (not .Values.inferencePool.endpointPicker.name) -}}
{{- $errors = append $errors "inferencePool.endpointPicker.name: it is missing. Name the service of the endpoint picker that you run" -}}
{{- end -}}
{{- toJson $errors -}}
{{- end -}}
