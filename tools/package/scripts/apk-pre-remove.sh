#!/bin/sh
# Before a removal under OpenRC: the daemon stops, and the rules stay, so that no connection breaks.
rc-service --ifstarted signpost stop
rc-update -q del signpost || true # It may be in no runlevel.
echo "signpost's rules stay in the kernel, and follow no changes. To be rid of them: signpost cleanup,"
echo "before the package goes; or, in nftables mode, nft delete table inet signpost."
