/**
 * Gathers the files that packages and archives have beside the binary.
 *
 * @module
 */
import { COMPLETION_SCRIPTS } from "../../lib/cli/completions.ts";
import { licensesReport } from "../../lib/cli/licenses/report.ts";
import { manPage } from "../man_page.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

/** A text file of the archive. */
export interface TextFile {
  /** Below the folder of the archive. */
  readonly path: string;
  readonly text: string;
  /** 0644 by default. */
  readonly mode?: number;
}

/** The files that every form of signpost comes with. */
export interface Content {
  readonly unit: string;
  /** The drop-in of the unit for jitless binaries. */
  readonly jitlessDropIn: string;
  readonly modules: string;
  /** The service file for OpenRC. */
  readonly openrc: string;
  readonly configuration: string;
  /** For `/etc/default/signpost`. */
  readonly defaults: string;
  readonly kubeconfig: string;
  readonly rbac: string;
  readonly manPage: string;
  readonly completions: typeof COMPLETION_SCRIPTS;
  /** The kubectl plug-in. */
  readonly plugin: string;
  readonly license: string;
  readonly notices: string;
  readonly changelog: string;
}

/** Reads and makes all files, from this checkout. */
export async function readContent(): Promise<Content> {
  const read = (name: string) => Deno.readTextFile(`${ROOT}${name}`);
  return {
    unit: await read("systemd/signpost.service"),
    jitlessDropIn: await read("systemd/signpost-jitless.conf"),
    modules: await read("systemd/signpost-modules.conf"),
    openrc: await read("examples/install/openrc/signpost"),
    configuration: await read("examples/config.yaml"),
    defaults: await read("examples/install/signpost.default"),
    kubeconfig: await read("examples/install/kubeconfig.yaml"),
    rbac: await read("examples/install/rbac.yaml"),
    manPage: manPage(),
    completions: COMPLETION_SCRIPTS,
    plugin: await read("examples/install/kubectl-signpost"),
    license: await read("LICENSE"),
    notices: licensesReport(),
    changelog: await read("CHANGELOG.md"),
  };
}

/**
 * Returns the files of the archive, for machines without dpkg. The binary is `signpost`. Paths are those of the
 * checkout, so that the guides of `docs/install` hold for both.
 */
export function archiveFiles(content: Content): TextFile[] {
  return [
    { path: "LICENSE", text: content.license },
    { path: "NOTICES", text: content.notices },
    { path: "CHANGELOG.md", text: content.changelog },
    { path: "signpost.1", text: content.manPage },
    { path: "completions/signpost.bash", text: content.completions.bash },
    { path: "completions/_signpost", text: content.completions.zsh },
    { path: "completions/signpost.fish", text: content.completions.fish },
    { path: "systemd/signpost.service", text: content.unit },
    { path: "systemd/signpost-jitless.conf", text: content.jitlessDropIn },
    { path: "systemd/signpost-modules.conf", text: content.modules },
    { path: "examples/install/openrc/signpost", text: content.openrc, mode: 0o755 },
    { path: "examples/config.yaml", text: content.configuration },
    { path: "examples/install/signpost.default", text: content.defaults },
    { path: "examples/install/kubeconfig.yaml", text: content.kubeconfig },
    { path: "examples/install/rbac.yaml", text: content.rbac },
  ];
}
