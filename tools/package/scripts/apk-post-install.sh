#!/bin/sh
# After the first installation under OpenRC: nothing starts, as with the other packages.
echo "signpost is not started yet: set clusterCIDR in /etc/signpost/config.yaml, put the node's"
echo "credentials to /etc/signpost/kubeconfig (see /usr/share/doc/signpost/examples), stop"
echo "kube-proxy, then: rc-update add signpost default && rc-service signpost start"
