/** `signpost bundle`: gathers the facts for a bug report in one archive, without secrets. */
import { likelyBackend } from "../../backend/choose.ts";
import { iptablesStructure, nftStructure } from "../../backend/structure.ts";
import { kubeProxyProcesses } from "../../backend/take_over.ts";
import type { CommandOf } from "../../config/command.ts";
import type { GivenSettings } from "../../config/settings.ts";
import { askRecent, askStatus } from "../client.ts";
import { readSystem } from "../../daemon/reports/node_findings.ts";
import { FatalError, messageOf } from "../../model/values/errors.ts";
import { count, plain } from "../../model/values/text.ts";
import { formatSize } from "../../observe/human.ts";
import { redactSecrets } from "../../observe/log.ts";
import { findNodeProblems } from "../check.ts";
import { jsonText, textTable } from "../output.ts";
import type { QueryContext } from "../context.ts";
import { verification } from "../verify.ts";
import { versionReport } from "../version.ts";
import { configurationText, writeOutput } from "../write_config.ts";

interface BundleContext extends QueryContext {
  readonly settings: GivenSettings;
}

interface Part {
  readonly path: string;
  readonly about: string;
  readonly read: (context: BundleContext) => string | Promise<string>;
}

/** Milliseconds to wait for the objects. */
const TIMEOUT = 5_000;

const MOST_DIFFERENCES = 1_000;

/** Gathers the parts, lists them, and writes the archive. @returns 0 @throws {FatalError} if it cannot be written */
export async function bundle(
  { output }: CommandOf<"bundle">,
  context: BundleContext,
): Promise<number> {
  const { nodeName, runtime } = context;
  const now = runtime.clock.now();
  const stamp = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const name = `signpost-${plain(nodeName).replaceAll(/[^\w.-]/g, "_").slice(0, 50)}-${stamp}`;
  const files = await Promise.all(PARTS.map(async ({ path, about, read }) => {
    // A part that cannot be read must not stop the others: bundles are for nodes with problems.
    const text = await Promise.try(read, context)
      .catch((error) => `could not be read: ${plain(messageOf(error))}\n`);
    return { path: `${name}/${path}`, row: [path, about], text: redactSecrets(text) };
  }));
  const archive = await gzippedTar(files, now);
  const rows = files.map(({ row, text }) => [...row, formatSize(text.length)]);
  const list =
    `${count(files.length, "file")} about ${plain(nodeName)}, without Secrets, tokens, ` +
    `keys, passwords and comments of rules. Names and addresses are in them.\n` +
    textTable(rows, { indent: "  " });
  if (output === "-") {
    for (const line of list.trimEnd().split("\n")) runtime.complain(line);
    if (runtime.isTerminal()) {
      throw new FatalError("--output -: a terminal cannot show an archive; redirect it to a file");
    }
    await runtime.print(archive);
    return 0;
  }
  const path = output || `/var/lib/signpost/${name}.tar.gz`;
  await runtime.print(list);
  const also = "or: signpost bundle -o - > FILE";
  await writeOutput(archive, { flag: "--output", path, also, runtime });
  await runtime.print(`Written to ${plain(path)}\n`);
  return 0;
}

/** The most characters of a listing: a router has a million routes. */
const MOST_TEXT = 1_000_000;

/** Returns the output of programs, each below its command. */
async function outputsOf(
  { runtime: { runner } }: BundleContext,
  commands: readonly (readonly [string, ...string[]])[],
): Promise<string> {
  const texts = await Promise.all(commands.map(async (argv) => {
    const { stdout, stderr } = await runner.run(argv);
    return `# ${argv.join(" ")}\n${stdout.slice(0, MOST_TEXT)}${stderr}\n`;
  }));
  return texts.join("");
}

const PARTS: readonly Part[] = [
  {
    path: "versions.txt",
    about: "signpost, Deno and the kernel",
    read: ({ runtime }) => `${versionReport(runtime.build)}kernel: ${runtime.osRelease()}\n`,
  },
  {
    path: "configuration.yaml",
    about: "flags and file with defaults",
    read: ({ settings }) => configurationText(settings),
  },
  {
    path: "status.json",
    about: "signpost status",
    read: async (context) => json(await askStatus(context)),
  },
  {
    path: "check.json",
    about: "signpost check, with all findings",
    read: async (context) => json(await findNodeProblems(context)),
  },
  {
    path: "verify.json",
    about: "signpost verify",
    read: async (context) => {
      const { report } = await verification({ fix: false, timeout: TIMEOUT }, context);
      return json({ ...report, differences: report.differences.slice(0, MOST_DIFFERENCES) });
    },
  },
  {
    path: "nft.txt",
    about: "signpost's tables without elements, and other chains",
    read: ({ runtime }) => nftStructure(runtime.runner),
  },
  {
    path: "iptables.txt",
    about: "chains and numbers of rules",
    read: ({ runtime }) => iptablesStructure(runtime.runner),
  },
  {
    path: "kube-proxy.json",
    about: "processes and rules of kube-proxy",
    read: async (context) => {
      const daemon = await context.runtime.lock.holder();
      return json({
        processes: await kubeProxyProcesses(context.runtime, daemon?.pid),
        rules: await likelyBackend(context).foreignRules.findProxy(),
      });
    },
  },
  {
    path: "log.txt",
    about: "the last lines of the daemon's log",
    read: async (context) => (await askRecent(context)).log.join("\n"),
  },
  {
    path: "history.json",
    about: "the last changes of Services",
    read: async (context) => json((await askRecent(context)).changes),
  },
  {
    path: "network.txt",
    about: "addresses, rules and routes",
    read: (context) =>
      outputsOf(context, [
        ["ip", "-br", "addr"],
        ["ip", "rule"],
        ["ip", "route"],
        ["ip", "-6", "rule"],
        ["ip", "-6", "route"],
      ]),
  },
  {
    path: "sysctl.txt",
    about: "the settings of connection tracking",
    read: (context) => outputsOf(context, [["sysctl", "net.netfilter"]]),
  },
  {
    path: "conntrack.txt",
    about: "numbers of connection tracking",
    read: async (context) => {
      const { conntrack } = await readSystem(context);
      const { stdout } = await context.runtime.runner.run(["conntrack", "-S"]);
      return `entries: ${conntrack?.entries ?? "?"} of ${conntrack?.max ?? "?"}\n${stdout}`;
    },
  },
];

function json(data: object): string {
  return `${jsonText(data, 2)}\n`;
}

interface ArchivedFile {
  /** At most 100 bytes. */
  readonly path: string;
  readonly text: string;
}

const BLOCK = 512;

/** Returns a gzipped tar archive (POSIX.1-2017, pax, "ustar Interchange Format"). @param modified ms since the epoch */
async function gzippedTar(
  files: readonly ArchivedFile[],
  modified: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const blocks = files.flatMap(({ path, text }) => {
    const body = new TextEncoder().encode(text);
    return [headerOf(path, { size: body.length, modified }), padded(body)];
  });
  // Two empty blocks end the archive.
  const tar = new Blob([...blocks, new Uint8Array(2 * BLOCK)]);
  return await new Response(tar.stream().pipeThrough(new CompressionStream("gzip"))).bytes();
}

function headerOf(
  path: string,
  { size, modified }: { readonly size: number; readonly modified: number },
): Uint8Array<ArrayBuffer> {
  const octal = (value: number, width: number) => value.toString(8).padStart(width, "0");
  const seconds = Math.floor(modified / 1_000);
  const before = path.padEnd(100, "\0") + `0000600\0${octal(0, 7)}\0${octal(0, 7)}\0` +
    `${octal(size, 11)}\0${octal(seconds, 11)}\0`;
  const after = `0${"\0".repeat(100)}ustar\0${"00"}`;
  // The checksum is computed with blanks in its own place.
  const sum = new TextEncoder().encode(`${before}${" ".repeat(8)}${after}`)
    .reduce((all, byte) => all + byte, 0);
  return padded(new TextEncoder().encode(`${before}${octal(sum, 6)}\0 ${after}`));
}

function padded(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const blocks = new Uint8Array(Math.ceil(bytes.length / BLOCK) * BLOCK);
  blocks.set(bytes);
  return blocks;
}
