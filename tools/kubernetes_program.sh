#!/bin/sh
# build_kube_proxy.sh VERSION FILE: builds a kube-proxy (v1.37.2, say) from the Go module proxy.
set -eu
version=$1
file=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
go mod init example.test/kube-proxy
go mod edit -require "k8s.io/kubernetes@$version"
modules=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
# Kubernetes' own go.mod has these in folders of its repository.
for name in $(sed -n 's|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging.*|\1|p' "$modules"); do
  go mod edit -replace "$name=$name@v0${version#v1}"
done
go build -trimpath -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" \
  -o "$file" k8s.io/kubernetes/cmd/kube-proxy
