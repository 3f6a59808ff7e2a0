#!/bin/sh
# After a removal or an upgrade. dpkg's purge removes the state, too.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/signpost /run/signpost
fi
