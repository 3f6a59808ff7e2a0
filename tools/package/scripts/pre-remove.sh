#!/bin/sh
# Before a removal ($1 is "remove" from dpkg, 0 from rpm): the daemon stops, and the rules stay, so that no connection
# breaks.
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now signpost.service
fi
echo "signpost's rules stay in the kernel, so that connections live on, and follow no changes."
echo "Another proxy may take over. To be rid of them: signpost cleanup, before the package goes;"
echo "or install it again; or, in nftables mode, nft delete table inet signpost."
