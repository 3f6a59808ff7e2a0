# The plug-in's manifest for krew-index. krew-release-bot fills in address and checksum of a release.
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: signpost
spec:
  version: {{ .TagName }}
  homepage: https://github.com/OWNER/signpost
  shortDescription: Ask signpost on all nodes
  description: |
    Runs status, check, verify, test, explain or bundle of signpost in its pods, eight nodes at a time, and prints one
    line for each node with a problem. signpost is a node proxy in the place of kube-proxy.
  caveats: |
    You need the rights to list pods and to exec in the pods of signpost. With the right to list nodes, it also names
    the nodes without a pod.
  platforms:
    - selector:
        matchExpressions:
          - { key: os, operator: In, values: [linux, darwin] }
      {{addURIAndSha "https://github.com/OWNER/signpost/releases/download/{{ .TagName }}/kubectl-signpost.tar.gz" .TagName }}
      bin: kubectl-signpost
      files:
        - { from: kubectl-signpost, to: . }
        - { from: LICENSE, to: . }
