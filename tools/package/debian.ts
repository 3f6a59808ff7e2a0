/**
 * The Debian package: where files go, and what its control files say.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import type { Content } from "./content.ts";
import { ARCHITECTURES, debianVersion, type Release } from "./release.ts";
import type { PackageFile } from "./tree.ts";

/** Whom users of the package write to: Debian's own variables, or a name without an address. */
export interface Maintainer {
  readonly name: string;
  readonly email: string;
}

const DOC = "usr/share/doc/signpost";

/** Files of the administrator: dpkg keeps what was changed in them. */
const CONFFILES = ["etc/default/signpost", "etc/signpost/config.yaml"];

/** All files but the binary, which is `usr/bin/signpost`. */
export function packageFiles(
  content: Content,
  options: { readonly release: Release; readonly maintainer: Maintainer },
): PackageFile[] {
  const { completions } = content;
  const unit = content.unit.replaceAll("/usr/local/bin/signpost", "/usr/bin/signpost");
  const dropIn = options.release.jitless
    ? [{
      path: "lib/systemd/system/signpost.service.d/jitless.conf",
      data: content.jitlessDropIn,
    }]
    : [];
  return [
    // /lib is a link to /usr/lib since Debian 12, and where Debian 11 and 12 want units.
    { path: "lib/systemd/system/signpost.service", data: unit },
    ...dropIn,
    { path: "etc/signpost/config.yaml", data: content.configuration },
    { path: "etc/default/signpost", data: content.defaults },
    { path: "usr/share/bash-completion/completions/signpost", data: completions.bash },
    { path: "usr/share/zsh/vendor-completions/_signpost", data: completions.zsh },
    { path: "usr/share/fish/vendor_completions.d/signpost.fish", data: completions.fish },
    { path: "usr/share/man/man1/signpost.1.gz", data: compressed(content.manPage) },
    { path: `${DOC}/copyright`, data: copyright(content) },
    { path: `${DOC}/changelog.gz`, data: compressed(content.changelog) },
    { path: `${DOC}/changelog.Debian.gz`, data: compressed(debianChangelog(options)) },
    { path: `${DOC}/examples/kubeconfig.yaml`, data: content.kubeconfig },
    { path: `${DOC}/examples/rbac.yaml`, data: content.rbac },
    { path: `${DOC}/examples/signpost-modules.conf`, data: content.modules },
    { path: "usr/share/lintian/overrides/signpost", data: OVERRIDES },
  ];
}

/**
 * Returns the control files but the maintainer scripts.
 *
 * @param options.size that of all files, in bytes
 * @param options.libraries the packages that the binary needs
 */
export function controlFiles(
  { release, maintainer, size, libraries }: {
    readonly release: Release;
    readonly maintainer: Maintainer;
    readonly size: number;
    readonly libraries: readonly string[];
  },
): PackageFile[] {
  const depends = [...libraries, "nftables (>= 1.0.1)", "conntrack", "procps"].join(", ");
  const control = `Package: signpost
Version: ${debianVersion(release)}
Architecture: ${ARCHITECTURES[release.target]}
Maintainer: ${maintainer.name} <${maintainer.email}>
Installed-Size: ${Math.ceil(size / 1024)}
Depends: ${depends}
Recommends: iptables, iproute2
Suggests: bash-completion, ipvsadm, ipset
Section: net
Priority: optional
Description: node proxy for Kubernetes Services
 signpost runs on every node of a Kubernetes cluster in the place of
 kube-proxy. It watches Services and EndpointSlices, and holds the rules of
 the kernel (nftables, or iptables) to them. It takes the flags and the
 configuration file of kube-proxy, and can take over from it at run time.
`;
  return [
    { path: "DEBIAN/control", data: control },
    { path: "DEBIAN/conffiles", data: CONFFILES.map((path) => `/${path}\n`).join("") },
  ];
}

/** `gzip -9n`: no name, no time. */
function compressed(text: string): Uint8Array {
  return new Uint8Array(gzipSync(text, { level: 9 }));
}

function debianChangelog(
  { release, maintainer }: { readonly release: Release; readonly maintainer: Maintainer },
): string {
  const date = new Date(release.commit.time * 1000).toUTCString().replace("GMT", "+0000");
  return `signpost (${debianVersion(release)}) unstable; urgency=medium

  * Made of commit ${release.commit.hash || "(unknown)"}; changelog.gz says what is new.

 -- ${maintainer.name} <${maintainer.email}>  ${date}
`;
}

/** Debian has the text of the Apache License on each machine, and wants no copy of it. */
function copyright({ notices }: Content): string {
  const text = notices.replace(
    /^ *Apache License\n[\s\S]*? +END OF TERMS AND CONDITIONS\n/m,
    "The text of the license is in /usr/share/common-licenses/Apache-2.0.\n",
  );
  return `signpost
Copyright 2026 the signpost authors

Licensed under the Apache License, Version 2.0; on Debian systems, its text is in
/usr/share/common-licenses/Apache-2.0.

${text}`;
}

const OVERRIDES = `# deno compile appends the program to the runtime: strip would cut it off.
signpost: unstripped-binary-or-object *
# A daemon that runs without being enabled is to be restarted, too: deb-systemd-invoke would not.
signpost: maintainer-script-calls-systemctl *
# Packages of releases are not for Debian's own archive.
signpost: initial-upload-closes-no-bugs *
# The packages in the program are listed in copyright, and cannot be linked dynamically.
signpost: embedded-library *
`;
