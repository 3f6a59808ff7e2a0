/** Finds the configuration for commands that do not name a cluster: the daemon's, else that of the node's file. */
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
  /** The command's own words. Their flags take precedence. */
  readonly argv: readonly string[];
  /** The invocation by these words alone. */
  readonly invocation: Run;
  readonly runtime: Pick<Runtime, "readFile" | "environment" | "complain" | "askDaemon">;
}

/** Finds the configuration, and prints its owner in one line. @returns the same invocation if flags name a cluster */
export async function nodeConfiguration(options: NodeConfigurationOptions): Promise<Invocation> {
  const { invocation, runtime } = options;
  const { command, given, configuration: { signpost: { socket } } } = invocation;
  // The manifests of a diff are a proposal, and do not name the cluster.
  const names = CLUSTER_FLAGS.filter((name) => name !== "manifests" || command.name !== "diff");
  // With one of these flags, only flags count.
  if (names.some((name) => given.includes(`--${name}`))) return invocation;
  const ofDaemon = await fromDaemon(options);
  const loaded = ofDaemon ?? await fromFile(options);
  const owner = ofDaemon ? `the running daemon (${plain(socket)})` : `this node (${NODE_FILE})`;
  const whose = `the configuration of ${owner}`;
  if (loaded?.type === "run") {
    runtime.complain(`signpost: with ${whose}`);
    return { ...loaded, configuredBy: ofDaemon ? "daemon" : "file" };
  }
  if (loaded?.type === "errors") {
    // The lines name the owner, because the command line does not.
    const errors = loaded.errors.map((line) => `${whose}: ${line}`);
    // With a bad configuration, rules can still be removed and a bug reported.
    if (!["bundle", "cleanup"].includes(command.name)) return { ...loaded, errors };
    for (const line of errors) runtime.complain(`signpost: ${line}`);
  }
  const needsCluster = ["diff", "explain", "verify"].includes(command.name);
  if (!needsCluster || runtime.environment("KUBERNETES_SERVICE_HOST")) return invocation;
  const daemon = socket === ""
    ? "--socket is empty, so no daemon can be asked"
    : `no daemon answers at ${plain(socket)} (only root and its group may ask)`;
  const error =
    `no configuration: ${daemon}, and ${NODE_FILE} does not exist: start signpost, or ` +
    `name the cluster with ${alternatives(names.map((name) => `--${name}`))}`;
  return { type: "errors", errors: [error], warnings: [] };
}

async function fromDaemon(
  { argv, invocation: { configuration }, runtime }: NodeConfigurationOptions,
): Promise<Invocation | undefined> {
  const commandLine = await askCommandLine({ configuration, runtime }).catch(() => undefined);
  if (!commandLine) return undefined;
  const { argv: base, file, workingDirectory } = commandLine;
  const invocation = await loadConfiguration(argv, {
    // The text that the daemon uses: the file may have changed since.
    readFile: (path) => file?.path === path ? Promise.resolve(file.text) : runtime.readFile(path),
    base,
  });
  return invocation.type === "run"
    ? { ...invocation, configuration: startingFrom(workingDirectory, invocation.configuration) }
    : invocation;
}

/** Makes paths absolute, relative to the daemon's working directory. */
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
  return await loadConfiguration(argv, { readFile, base: ["--config", NODE_FILE] });
}
