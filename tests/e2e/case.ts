/**
 * One test: objects and configuration in, `signpost --once`, its script into the kernel, packets.
 */
import { assertMatch } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { CommandError, type CommandResult } from "../support/command.ts";
import { Network } from "../support/network.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { runSignpost, Signpost } from "../support/signpost.ts";
import { addAddress } from "../support/topology.ts";
import {
  ADDRESSES,
  type Addresses,
  clusterObjects,
  configuration,
  type Manifest,
  TARGET_PORT,
  TARGET_PORT2,
  TOPOLOGY,
} from "./cluster.ts";
import { assertFlows, type Flow } from "./flow.ts";
import { assertPredicted } from "./prediction.ts";

/** Objects and settings of a node. */
export interface Input {
  /** The addresses of the primary family. */
  readonly a: Addresses;
  /** Services and slices; the Node and the ServiceCIDR come with them. */
  readonly objects: readonly Manifest[];
  /** False: there is no Node. */
  readonly hasNode?: boolean;
  /** Fields that the KubeProxyConfiguration has besides the usual. */
  readonly config?: Manifest;
}

/** Objects, and the outcomes of packets. */
export interface Case extends Omit<Input, "a"> {
  /** Addresses that the node has besides, as some clouds put load-balancer IPs there. */
  readonly nodeAddresses?: readonly string[];
  readonly flows: readonly Flow[];
  /** Matches the warnings on standard error. */
  readonly warns?: RegExp;
}

const test = sideBySide("objects in, packets out");

/** Registers a test for each family and each mode; `build` leaves the mode open. */
export function testCaseInBothModes(name: string, build: (a: Addresses) => Case): void {
  for (const mode of ["nftables", "iptables"] as const) {
    testCase(`${name}, ${mode}`, (a) => {
      const { config = {}, ...rest } = build(a);
      return { ...rest, config: { mode, ...config } };
    });
  }
}

/** Registers a test for IPv4 and one for IPv6. */
export function testCase(name: string, build: (a: Addresses) => Case): void {
  for (const family of FAMILIES) {
    test(`${name} (IPv${family})`, async () => {
      const a = ADDRESSES[family];
      const { nodeAddresses = [], flows, warns, ...rest } = build(a);
      const input = { a, ...rest };
      await using network = await createCluster();
      await network.ip("node", nodeAddresses.map((address) => addAddress(address, "eth0")));
      const stderr = await applyOnce(network, input);
      if (warns) assertMatch(stderr, warns);
      await assertFlows(network, flows);
      await assertPredicted(flows, { a, nodeAddresses, ...completeInput(input) });
    });
  }
}

/** The network with a server on each endpoint's ports. */
export async function createCluster(): Promise<Network> {
  const network = await Network.create(TOPOLOGY);
  for (const host of Object.keys(TOPOLOGY.hosts)) {
    for (const protocol of ["tcp", "udp"] as const) {
      for (const port of [TARGET_PORT, TARGET_PORT2]) network.serve(host, { protocol, port });
    }
  }
  return network;
}

/** Adds the Node, the ServiceCIDR and the usual configuration. */
function completeInput({ a, objects, hasNode = true, config }: Input) {
  const cluster = clusterObjects(a).filter(({ kind }) => hasNode || kind !== "Node");
  return { objects: [...cluster, ...objects], config: configuration(a, config) };
}

/** A folder with the manifests and the configuration. */
export interface InputFiles extends AsyncDisposable {
  readonly config: string;
  readonly manifests: string;
}

/** Writes `config.yaml` and `manifests/cluster.json`; the folder goes when disposed. */
export async function writeInput(input: {
  readonly objects: readonly Manifest[];
  readonly config: Manifest;
}): Promise<InputFiles> {
  const folder = await Deno.makeTempDir({ prefix: "signpost-e2e-" });
  const files = { config: `${folder}/config.yaml`, manifests: `${folder}/manifests` };
  await Deno.mkdir(files.manifests);
  await writeManifests(files.manifests, input.objects);
  await Deno.writeTextFile(files.config, JSON.stringify(input.config));
  return { ...files, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

/** Replaces the manifests of a folder at one stroke. */
export async function writeManifests(folder: string, objects: readonly Manifest[]): Promise<void> {
  const list = { apiVersion: "v1", kind: "List", items: objects };
  await Deno.writeTextFile(`${folder}.new`, JSON.stringify(list, undefined, 1));
  await Deno.rename(`${folder}.new`, `${folder}/cluster.json`);
}

/** Puts what `signpost --once` prints into the node's kernel; gives what it says besides. */
export async function applyOnce(network: Network, input: Input): Promise<string> {
  await using files = await writeInput(completeInput(input));
  return await applyFiles(network, files);
}

async function applyFiles(network: Network, files: InputFiles): Promise<string> {
  const args = ["--once", "--config", files.config, "--manifests", files.manifests];
  const result = await runSignpost(network, args);
  if (result.code !== 0) throw new CommandError(["signpost", ...args], result);
  if (/^# ip6?tables-restore/.test(result.stdout)) await applyIptables(network, result.stdout);
  else await network.applyNft(result.stdout);
  await network.flushConntrack();
  return result.stderr;
}

/** Gives each part of a script for iptables mode to the program that its first line names. */
async function applyIptables(network: Network, script: string): Promise<void> {
  const parts = script.split(/^# (ip6?tables-restore)\n/m).slice(1);
  for (let i = 0; i < parts.length; i += 2) {
    await network.run("node", [parts[i] ?? "", "--noflush"], { stdin: parts[i + 1] ?? "" });
  }
}

/** A node without a daemon, whose objects and configuration are files. */
export class FileStage implements AsyncDisposable {
  private constructor(
    readonly network: Network,
    private readonly files: InputFiles,
    private readonly resources: AsyncDisposableStack,
  ) {}

  /** Makes the node. Its kernel has no rules. */
  static async create(input: Input): Promise<FileStage> {
    await using resources = new AsyncDisposableStack();
    const network = resources.use(await createCluster());
    const files = resources.use(await writeInput(completeInput(input)));
    return new FileStage(network, files, resources.move());
  }

  /** Makes the node, and writes the rules into its kernel. */
  static async createWithRules(input: Input): Promise<FileStage> {
    await using resources = new AsyncDisposableStack();
    const stage = resources.use(await FileStage.create(input));
    await applyFiles(stage.network, stage.files);
    resources.move();
    return stage;
  }

  /** The flags that name the files. */
  get args(): string[] {
    const { config, manifests } = this.files;
    return ["--config", config, "--manifests", manifests, "--socket", ""];
  }

  /** Runs a command of signpost that reads the files. */
  run(...words: readonly string[]): Promise<CommandResult> {
    return runSignpost(this.network, [...words, ...this.args]);
  }

  /** Starts a daemon that reads the files. */
  start(): Signpost {
    return Signpost.start(this.network, [...this.args, "--state-file", ""]);
  }

  /** Replaces the objects; the Node and the ServiceCIDR stay. */
  async write(a: Addresses, objects: readonly Manifest[]): Promise<void> {
    await writeManifests(this.files.manifests, completeInput({ a, objects }).objects);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resources.disposeAsync();
  }
}
