/**
 * Makes the files that nfpm.yaml names.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import type { Content } from "./content.ts";
import { packageVersion, type Release } from "./release.ts";
import type { PackageFile } from "./tree.ts";

const SCRIPTS = new URL("scripts/", import.meta.url);

/**
 * Returns the sources of packages but the binary, and the scripts.
 *
 * @param maintainer the maintainer's name and address, as Debian writes it
 */
export async function packageFiles(
  content: Content,
  { release, maintainer }: { readonly release: Release; readonly maintainer: string },
): Promise<PackageFile[]> {
  const { completions } = content;
  const inUsr = (text: string) => text.replaceAll("/usr/local/bin/signpost", "/usr/bin/signpost");
  const names = (await Array.fromAsync(Deno.readDir(SCRIPTS))).map(({ name }) => name);
  const scripts = names.map(async (path) => ({
    path,
    data: await Deno.readTextFile(new URL(path, SCRIPTS)),
    mode: 0o755,
  }));
  return [
    { path: "signpost.service", data: inUsr(content.unit) },
    { path: "jitless.conf", data: content.jitlessDropIn },
    { path: "openrc", data: inUsr(content.openrc) },
    { path: "config.yaml", data: content.configuration },
    { path: "signpost.default", data: content.defaults },
    { path: "signpost.bash", data: completions.bash },
    { path: "_signpost", data: completions.zsh },
    { path: "signpost.fish", data: completions.fish },
    { path: "signpost.1.gz", data: compressed(content.manPage) },
    { path: "copyright", data: copyright(content) },
    { path: "changelog.gz", data: compressed(content.changelog) },
    { path: "changelog.Debian.gz", data: compressed(debianChangelog({ release, maintainer })) },
    { path: "kubeconfig.yaml", data: content.kubeconfig },
    { path: "rbac.yaml", data: content.rbac },
    { path: "signpost-modules.conf", data: content.modules },
    { path: "lintian-overrides", data: OVERRIDES },
    ...await Promise.all(scripts),
  ];
}

/** `gzip -9n`: no name, no time. */
function compressed(text: string): Uint8Array {
  return new Uint8Array(gzipSync(text, { level: 9 }));
}

function debianChangelog(
  { release, maintainer }: { readonly release: Release; readonly maintainer: string },
): string {
  const date = new Date(release.commit.time * 1000).toUTCString().replace("GMT", "+0000");
  return `signpost (${packageVersion(release)}-1) unstable; urgency=medium

  * Made of commit ${release.commit.hash || "(unknown)"}; changelog.gz says what is new.

 -- ${maintainer}  ${date}
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
