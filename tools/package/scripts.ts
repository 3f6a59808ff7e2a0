/**
 * The maintainer scripts of the Debian package. deb-postinst(5) tells when they run.
 *
 * First installation: nothing is started, as the configuration is not this node's yet and kube-proxy
 * may be at work. Upgrade: a running daemon is restarted, and the rules stay meanwhile. Remove: the
 * daemon is stopped, and the rules stay, so that no connection breaks; `signpost cleanup` before it
 * takes them away. Purge: the state goes, too.
 *
 * @module
 */
import type { PackageFile } from "./tree.ts";

const HEAD = "#!/bin/sh\nset -e\n\n";

const POSTINST = `${HEAD}if [ "$1" = configure ]; then
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # The rules stay in the kernel meanwhile. $2 is the version before.
    if [ -n "$2" ]; then
      systemctl try-restart signpost.service ||
        echo "signpost does not start: see systemctl status signpost; the rules stay as they are"
    fi
  fi
  if [ -z "$2" ]; then
    echo "signpost is not started yet: set clusterCIDR in /etc/signpost/config.yaml, put the node's"
    echo "credentials to /etc/signpost/kubeconfig (see /usr/share/doc/signpost/examples), stop"
    echo "kube-proxy, then: systemctl enable --now signpost"
  fi
fi
`;

const PRERM = `${HEAD}if [ "$1" = remove ]; then
  if [ -d /run/systemd/system ]; then
    systemctl disable --now signpost.service
  fi
  echo "signpost's rules stay in the kernel, so that connections live on, and follow no changes."
  echo "Another proxy may take over. To be rid of them: signpost cleanup, before the package goes;"
  echo "or install it again; or, in nftables mode, nft delete table inet signpost."
fi
`;

const POSTRM = `${HEAD}if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/signpost /run/signpost
fi
`;

/** The scripts, with the names that dpkg wants. */
export const MAINTAINER_SCRIPTS: readonly PackageFile[] = [
  { path: "DEBIAN/postinst", data: POSTINST, mode: 0o755 },
  { path: "DEBIAN/prerm", data: PRERM, mode: 0o755 },
  { path: "DEBIAN/postrm", data: POSTRM, mode: 0o755 },
];
