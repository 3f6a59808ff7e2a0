{{- /* One for each cluster, so its objects have fixed names: those of examples/install. */}}
{{- define "signpost.selector" -}}
app.kubernetes.io/name: signpost
{{- end }}

{{- define "signpost.labels" -}}
{{ include "signpost.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "signpost.serviceAccount" -}}
{{ .Values.serviceAccount.name | default "signpost" }}
{{- end }}

{{- /* The fields of a container that name its image. */}}
{{- define "signpost.image" -}}
{{- $repository := required "image.repository: name the image, such as ghcr.io/OWNER/signpost" .Values.image.repository -}}
{{- $version := printf ":%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- with .Values.image.digest }}{{ $version = printf "@%s" . }}{{ end -}}
image: {{ print $repository $version | quote }}
{{- if ne .Values.image.pullPolicy "IfNotPresent" }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- end }}

{{- /* The fields of a pod that choose its nodes, and the secrets for its image. */}}
{{- define "signpost.placement" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "affinity" "tolerations" }}
{{- with get $.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The KubeProxyConfiguration, with .Values.config laid over what has a value of its own. */}}
{{- define "signpost.config" -}}
{{- $own := dict
  "apiVersion" "kubeproxy.config.k8s.io/v1alpha1"
  "kind" "KubeProxyConfiguration"
  "clientConnection" (dict "kubeconfig" "/etc/signpost/kubeconfig.yaml")
-}}
{{- if .Values.clusterCIDR }}{{ $_ := set $own "clusterCIDR" .Values.clusterCIDR }}
{{- else if eq .Values.detectLocalMode "ClusterCIDR" -}}
{{- $_ := required "clusterCIDR: name the range of all pods, or another detectLocalMode" .Values.clusterCIDR }}
{{- end -}}
{{- if .Values.mode }}{{ $_ := set $own "mode" .Values.mode }}{{ end -}}
{{- if ne .Values.detectLocalMode "ClusterCIDR" }}{{ $_ := set $own "detectLocalMode" .Values.detectLocalMode }}{{ end -}}
{{- if .Values.detectLocal }}{{ $_ := set $own "detectLocal" .Values.detectLocal }}{{ end -}}
{{- if .Values.nodePortAddresses }}{{ $_ := set $own "nodePortAddresses" .Values.nodePortAddresses }}{{ end -}}
{{- if ne .Values.metricsBindAddress "127.0.0.1:10249" }}{{ $_ := set $own "metricsBindAddress" .Values.metricsBindAddress }}{{ end -}}
{{- if ne .Values.healthzBindAddress "0.0.0.0:10256" }}{{ $_ := set $own "healthzBindAddress" .Values.healthzBindAddress }}{{ end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end }}

{{- /* What the schema cannot say in words. */}}
{{- define "signpost.check" -}}
{{- $server := .Values.apiServer -}}
{{- if and $server (not (regexMatch "^https://[^/]+/?$" $server)) }}
{{- fail (printf "apiServer: is %q, must be https://HOST:PORT" $server) }}
{{- end -}}
{{- $digest := .Values.image.digest -}}
{{- if and $digest (not (regexMatch "^sha256:[0-9a-f]{64}$" $digest)) }}
{{- fail (printf "image.digest: is %q, must be sha256: and 64 hexadecimal digits" $digest) }}
{{- end -}}
{{- range $name := list "healthzBindAddress" "metricsBindAddress" -}}
{{- $address := get $.Values $name -}}
{{- if not (regexMatch "^([^:]+|\\[.+\\]):[0-9]+$" $address) }}
{{- fail (printf "%s: is %q, must be ADDRESS:PORT, such as 0.0.0.0:10256 or [::]:10256" $name $address) }}
{{- end -}}
{{- end -}}
{{- if and .Values.podMonitor.enabled (regexMatch "^(127\\.|\\[::1\\])" .Values.metricsBindAddress) }}
{{- fail (printf "metricsBindAddress: is %q, and Prometheus cannot reach that; podMonitor.enabled needs another, such as 0.0.0.0:10249" .Values.metricsBindAddress) }}
{{- end -}}
{{- end }}
