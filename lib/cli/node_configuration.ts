/** Finds the configuration of commands that name no cluster: the daemon's, else that of the node's file. */
import { isAbsolute, join } from "node:path/posix";
import { CLUSTER_FLAGS } from "../config/commands.ts";
import { type ConfiguredBy, type Invocation, loadConfiguration } from "../config/load.ts";
import { askCommandLine } from "./client.ts";
import { FatalError } from "../model/values/errors.ts";
import type { Configuration } from "../config/configuration.ts";
import { plain } from "../model/values/text.ts";
import type { Runtime } from "../model/ports/runtime.ts";

type Run = Extract<Invocation, { readonly type: "run" }>;

/** The configuration file of the packages' unit. */
const NODE_FILE = "/etc/signpost/config.yaml";

export interface NodeConfigurationOptions {
  /** The command's own words; their flags win. */
  readonly argv: readonly string[];
  /** The invocation that they give alone. */
  readonly invocation: Run;
  readonly runtime: Pick<Runtime, "readFile" | "environment" | "complain" | "askDaemon">;
  readonly version: string;
}

/**
 * Finds the configuration, and says in one line whose it is.
 * @returns the same invocation if flags name a cluster, or if the command needs no configuration and there is none
 * @throws {FatalError} if the command needs a configuration and there is none
 */
export async function nodeConfiguration(options: NodeConfigurationOptions): Promise<Invocation> {
  const { invocation, runtime } = options;
  // Rules can be removed all the same, and a bug be reported.
  const isNeeded = !["bundle", "cleanup"].includes(invocation.command.name);
  const complain = (line: string) => runtime.complain(`signpost: ${line}`);
  try {
    const found = await find(options);
    if (found.type !== "errors" || isNeeded) return found;
    found.errors.forEach(complain);
  } catch (error) {
    if (!(error instanceof FatalError) || isNeeded) throw error;
    complain(error.message);
  }
  return invocation;
}

async function find(options: NodeConfigurationOptions): Promise<Invocation> {
  const { invocation, runtime } = options;
  const { command, given, configuration } = invocation;
  // The manifests of a diff are what might be applied, not the cluster.
  const names = CLUSTER_FLAGS.filter((name) => name !== "manifests" || command.name !== "diff");
  // With one of them, flags are all that counts.
  if (names.some((name) => given.includes(`--${name}`))) return invocation;
  const { socket } = configuration.signpost;
  const found = await fromDaemon(options) ?? await fromFile(options);
  if (found) {
    if (found.invocation.type === "run") {
      runtime.complain(`signpost: with the configuration of ${found.whose}`);
      return { ...found.invocation, configuredBy: found.by };
    }
    return asErrors(found.invocation, found.whose);
  }
  const needsCluster = ["diff", "explain", "verify"].includes(command.name);
  if (!needsCluster || runtime.environment("KUBERNETES_SERVICE_HOST")) return invocation;
  const daemon = socket === ""
    ? "there is no socket to ask a daemon at"
    : `no daemon answers at ${plain(socket)} (only root and its group may ask)`;
  throw new FatalError(
    `no configuration: ${daemon}, and there is no ${NODE_FILE}: start signpost, or name the cluster with --config, --kubeconfig, --master or --manifests`,
  );
}

interface Found {
  readonly by: ConfiguredBy;
  /** Ends a sentence. */
  readonly whose: string;
  readonly invocation: Invocation;
}

async function fromDaemon(
  { argv, invocation: { configuration }, runtime, version }: NodeConfigurationOptions,
): Promise<Found | undefined> {
  const said = await askCommandLine({ configuration, runtime }).catch(() => undefined);
  if (!said) return undefined;
  const { file, workingDirectory } = said;
  const whose = `the running daemon (${plain(configuration.signpost.socket)})`;
  const invocation = await loadConfiguration(argv, {
    version,
    // What the daemon has taken over, whatever the file says by now.
    readFile: (path) => file?.path === path ? Promise.resolve(file.text) : runtime.readFile(path),
    base: said.argv,
  });
  if (invocation.type !== "run") return { by: "daemon", whose, invocation };
  const absolute = startingFrom(workingDirectory, invocation.configuration);
  return { by: "daemon", whose, invocation: { ...invocation, configuration: absolute } };
}

/** Makes paths absolute, as a daemon with this working directory means them. */
function startingFrom(folder: string, configuration: Configuration): Configuration {
  const absolute = (path: string) => path === "" || isAbsolute(path) ? path : join(folder, path);
  const { clientConnection, signpost } = configuration;
  return {
    ...configuration,
    clientConnection: {
      ...clientConnection,
      kubeconfig: absolute(clientConnection.kubeconfig),
    },
    signpost: {
      ...signpost,
      manifests: signpost.manifests.map((path) => path === "-" ? path : absolute(path)),
    },
  };
}

async function fromFile(
  { argv, runtime, version }: NodeConfigurationOptions,
): Promise<Found | undefined> {
  let text: string;
  try {
    text = await runtime.readFile(NODE_FILE);
  } catch (error) {
    if (error instanceof Error && error.name === "NotFound") return undefined;
    throw error instanceof Error
      ? new FatalError(`${NODE_FILE}: cannot be read: ${plain(error.message)}`, { cause: error })
      : error;
  }
  const invocation = await loadConfiguration(argv, {
    version,
    readFile: (path) => path === NODE_FILE ? Promise.resolve(text) : runtime.readFile(path),
    base: ["--config", NODE_FILE],
  });
  return { by: "file", whose: `this node (${NODE_FILE})`, invocation };
}

/** Errors of a configuration that was not named on the command line say whose they are. */
function asErrors(invocation: Invocation, whose: string): Invocation {
  if (invocation.type !== "errors") return invocation;
  return {
    ...invocation,
    errors: invocation.errors.map((line) => `the configuration of ${whose}: ${line}`),
  };
}
