/** Finds the configuration of commands that name no cluster: the daemon's, else that of the node's file. */
import { isAbsolute, join } from "@std/path/posix";
import { CLUSTER_FLAGS } from "../config/commands.ts";
import { type Invocation, loadConfiguration, type Run } from "../config/load.ts";
import { askCommandLine } from "./client.ts";
import type { Configuration } from "../config/configuration.ts";
import { alternatives, plain } from "../model/values/text.ts";
import type { Runtime } from "../model/ports/runtime.ts";

/** The configuration file of the packages' unit. */
const NODE_FILE = "/etc/signpost/config.yaml";

interface NodeConfigurationOptions {
  /** The command's own words; their flags win. */
  readonly argv: readonly string[];
  /** The invocation that they give alone. */
  readonly invocation: Run;
  readonly runtime: Pick<Runtime, "readFile" | "environment" | "complain" | "askDaemon">;
}

/** Finds the configuration, and says in one line whose it is. @returns the same invocation if flags name a cluster */
export async function nodeConfiguration(options: NodeConfigurationOptions): Promise<Invocation> {
  const { invocation, runtime } = options;
  const { command, given, configuration: { signpost: { socket } } } = invocation;
  // The manifests of a diff are what might be applied, not the cluster.
  const names = CLUSTER_FLAGS.filter((name) => name !== "manifests" || command.name !== "diff");
  // With one of them, flags are all that counts.
  if (names.some((name) => given.includes(`--${name}`))) return invocation;
  const loaded = await fromDaemon(options) ?? await fromFile(options);
  if (loaded?.type === "run") {
    const whose = loaded.configuredBy === "daemon" ? daemonAt(socket) : THIS_NODE;
    runtime.complain(`signpost: with the configuration of ${whose}`);
    return loaded;
  }
  // Rules can be removed all the same, and a bug be reported.
  const isNeeded = !["bundle", "cleanup"].includes(command.name);
  if (loaded && isNeeded) return loaded;
  if (loaded?.type === "errors") {
    for (const line of loaded.errors) runtime.complain(`signpost: ${line}`);
  }
  const needsCluster = ["diff", "explain", "verify"].includes(command.name);
  if (!needsCluster || runtime.environment("KUBERNETES_SERVICE_HOST")) return invocation;
  const daemon = socket === ""
    ? "there is no socket to ask a daemon at"
    : `no daemon answers at ${plain(socket)} (only root and its group may ask)`;
  const error = `no configuration: ${daemon}, and there is no ${NODE_FILE}: start signpost, or ` +
    `name the cluster with ${alternatives(names.map((name) => `--${name}`))}`;
  return { type: "errors", errors: [error], warnings: [] };
}

const THIS_NODE = `this node (${NODE_FILE})`;

function daemonAt(socket: string): string {
  return `the running daemon (${plain(socket)})`;
}

async function fromDaemon(
  { argv, invocation: { configuration }, runtime }: NodeConfigurationOptions,
): Promise<Invocation | undefined> {
  const said = await askCommandLine({ configuration, runtime }).catch(() => undefined);
  if (!said) return undefined;
  const { file, workingDirectory } = said;
  const invocation = await loadConfiguration(argv, {
    // What the daemon has taken over, whatever the file says by now.
    readFile: (path) => file?.path === path ? Promise.resolve(file.text) : runtime.readFile(path),
    base: said.argv,
  });
  if (invocation.type !== "run") {
    return asErrors(invocation, daemonAt(configuration.signpost.socket));
  }
  const absolute = startingFrom(workingDirectory, invocation.configuration);
  return { ...invocation, configuration: absolute, configuredBy: "daemon" };
}

/** Makes paths absolute, as a daemon with this working directory means them. */
function startingFrom(folder: string, configuration: Configuration): Configuration {
  const absolute = (path: string) =>
    path === "" || path === "-" || isAbsolute(path) ? path : join(folder, path);
  const { clientConnection, signpost } = configuration;
  const kubeconfig = absolute(clientConnection.kubeconfig);
  return {
    ...configuration,
    clientConnection: { ...clientConnection, kubeconfig },
    signpost: { ...signpost, manifests: signpost.manifests.map(absolute) },
  };
}

async function fromFile(
  { argv, runtime: { readFile } }: NodeConfigurationOptions,
): Promise<Invocation | undefined> {
  const isMissing = await readFile(NODE_FILE)
    .then(() => false, (error) => error instanceof Error && error.name === "NotFound");
  if (isMissing) return undefined;
  const invocation = await loadConfiguration(argv, { readFile, base: ["--config", NODE_FILE] });
  return invocation.type === "run"
    ? { ...invocation, configuredBy: "file" }
    : asErrors(invocation, THIS_NODE);
}

/** Adds the owner of the configuration to its errors: the command line does not name it. */
function asErrors(invocation: Invocation, whose: string): Invocation {
  if (invocation.type !== "errors") return invocation;
  const errors = invocation.errors.map((line) => `the configuration of ${whose}: ${line}`);
  return { ...invocation, errors };
}
