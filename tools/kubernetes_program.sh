#!/bin/sh
# kubernetes_program.sh NAME VERSION FILE: builds kube-proxy, kube-apiserver or kubeadm (v1.37.2, say) from the Go module proxy.
set -eu
name=$1
version=$2
mkdir -p "$(dirname "$3")"
file=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
go mod init "example.test/$name"
go mod edit -require "k8s.io/kubernetes@$version"
modules=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
# Kubernetes' own go.mod has these in folders of its repository.
for module in $(sed -n 's|^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging.*|\1|p' "$modules"); do
  go mod edit -replace "$module=$module@v0${version#v1}"
done
minor=${version#v1.}
variables="k8s.io/component-base/version"
go build -trimpath -o "$file" -ldflags "-s -w -X $variables.gitVersion=$version \
  -X $variables.gitMajor=1 -X $variables.gitMinor=${minor%.*}" "k8s.io/kubernetes/cmd/$name"
