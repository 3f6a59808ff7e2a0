#!/bin/sh
# After an installation or an upgrade: $1 is "configure" from dpkg and $2 the old version; $1 is the number of versions
# that are installed from rpm. Nothing starts at the first installation: the configuration is not this node's yet, and
# kube-proxy may be at work.
set -e
case "$1 $2" in
"configure " | "1 ") first=yes ;;
configure* | [2-9]*) first= ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  # The rules stay in the kernel meanwhile.
  if [ -z "$first" ]; then
    systemctl try-restart signpost.service ||
      echo "signpost does not start: see systemctl status signpost; the rules stay as they are"
  fi
fi
if [ -n "$first" ]; then
  echo "signpost is not started yet: set clusterCIDR in /etc/signpost/config.yaml, put the node's"
  echo "credentials to /etc/signpost/kubeconfig (see /usr/share/doc/signpost/examples), stop"
  echo "kube-proxy, then: systemctl enable --now signpost"
fi
