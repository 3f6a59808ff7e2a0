#!/bin/sh
# After an upgrade under OpenRC. The rules stay in the kernel meanwhile.
rc-service --ifstarted signpost restart ||
  echo "signpost does not start: see /var/log/signpost.log; the rules stay as they are"
