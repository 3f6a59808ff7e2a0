#!/bin/sh
# Replaces kube-proxy by signpost on one node, or goes back, and checks each step. docs/install/kubeadm.md uses it:
#   take-over-node.sh NODE           kube-proxy stops, signpost serves; if a check fails, kube-proxy comes back
#   take-over-node.sh --back NODE    signpost stops, kube-proxy serves, signpost's rules are removed
# Needs kubectl, and both DaemonSets with rules for the label node-proxy. Running it again is safe.
set -u

system() { kubectl -n kube-system "$@"; }
say() { echo "$node: $*"; }
fail() { echo "$node: $*" >&2; exit 1; }

# Tries a command for two minutes.
eventually() {
  tries=0
  until "$@" > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || return 1
    sleep 2
  done
}

# Prints the pods on this node that have a label.
pods() {
  system get pod -l "$1" --field-selector "spec.nodeName=$node" -o 'jsonpath={.items[*].metadata.name}'
}
is_gone() { pods=$(pods "$1") && [ -z "$pods" ]; }
is_ready() { [ -n "$(pods "$1")" ] && system wait pod -l "$1" --field-selector "spec.nodeName=$node" --for=condition=Ready --timeout=2s; }
in_signpost() { system exec "$(pods "$signpost")" -- signpost "$@"; }

kube_proxy=k8s-app=kube-proxy
signpost=app.kubernetes.io/name=signpost

back() {
  kubectl label --overwrite node "$node" node-proxy=none > /dev/null || fail "cannot set the label node-proxy"
  eventually is_gone "$signpost" || fail "signpost's pod does not stop"
  kubectl label node "$node" node-proxy- > /dev/null || fail "cannot remove the label node-proxy"
  eventually is_ready "$kube_proxy" || fail "kube-proxy is not Ready: signpost's rules still serve, and follow no changes"
  say "kube-proxy serves"
  # The pod of a run that failed would not start again.
  system delete pod "signpost-cleanup-$node" --ignore-not-found > /dev/null || fail "cannot delete the pod signpost-cleanup-$node"
  image=$(system get daemonset signpost -o 'jsonpath={.spec.template.spec.containers[0].image}')
  sed -e "s/NODE/$node/" -e "s|image: .*|image: $image|" "$(dirname "$0")/cleanup-pod.yaml" | system apply -f - > /dev/null ||
    fail "cannot start the pod that removes signpost's rules"
  system wait pod "signpost-cleanup-$node" '--for=jsonpath={.status.phase}=Succeeded' --timeout=120s > /dev/null ||
    fail "signpost's rules are not removed: kubectl -n kube-system logs signpost-cleanup-$node"
  system delete pod "signpost-cleanup-$node" > /dev/null
  say "signpost's rules are removed"
}

# Says which check failed, goes back and ends.
undo() {
  say "$1; going back to kube-proxy" >&2
  system logs -l "$signpost" --field-selector "spec.nodeName=$node" --tail=5 >&2
  back
  exit 1
}

direction=over
[ "${1:-}" != --back ] || { direction=back; shift; }
[ $# -eq 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
node=$1

ready=$(kubectl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') || fail "there is no such node"
system get daemonset kube-proxy -o 'jsonpath={.spec.template.spec.affinity}' | grep -q node-proxy ||
  fail "kube-proxy's DaemonSet does not know the label node-proxy: apply examples/install/kube-proxy-patch.yaml"
selected=$(system get daemonset signpost -o 'jsonpath={.spec.template.spec.nodeSelector.node-proxy}') ||
  fail "there is no DaemonSet signpost in kube-system"
[ "$selected" = signpost ] || fail "signpost's DaemonSet needs the nodeSelector node-proxy: signpost"
[ "$direction" = over ] || { back; exit 0; }

[ "$ready" = True ] || fail "the node is not Ready"

if [ "$(kubectl get node "$node" -o 'jsonpath={.metadata.labels.node-proxy}')" != signpost ]; then
  kubectl label --overwrite node "$node" node-proxy=none > /dev/null || fail "cannot set the label node-proxy"
  eventually is_gone "$kube_proxy" || undo "kube-proxy's pod does not stop"
  say "kube-proxy has stopped, its rules serve"
  kubectl label --overwrite node "$node" node-proxy=signpost > /dev/null || undo "cannot set the label node-proxy"
fi
eventually is_ready "$signpost" || undo "signpost is not Ready"
say "signpost is Ready"
eventually in_signpost verify || undo "signpost verify finds differences"
in_signpost status > /dev/null || undo "signpost status reports an error"
say "the kernel holds signpost's rules and no others, signpost is healthy"
