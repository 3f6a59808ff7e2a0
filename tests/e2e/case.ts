/**
 * One test: objects and configuration in, `signpost --once`, its script into the kernel, packets.
 */
import { assertMatch } from "@std/assert";
import { FAMILIES } from "../../lib/model/values/address.ts";
import { CommandError } from "../support/command.ts";
import { Network } from "../support/network.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { runSignpost } from "../support/signpost.ts";
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

/** Objects, and the outcomes of packets. */
export interface Case {
  /** Services and slices; the Node and the ServiceCIDR come with them. */
  readonly objects: readonly Manifest[];
  /** False: there is no Node. */
  readonly hasNode?: boolean;
  /** Fields that the KubeProxyConfiguration has besides the usual. */
  readonly config?: Manifest;
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
      const { hasNode = true, config = {}, nodeAddresses = [], flows, warns, ...rest } = build(a);
      const cluster = clusterObjects(a).filter(({ kind }) => hasNode || kind !== "Node");
      const objects = [...cluster, ...rest.objects];
      await using network = await createCluster();
      await network.ip("node", nodeAddresses.map((address) => addAddress(address, "eth0")));
      const stderr = await applyOnce(network, { objects, config: configuration(a, config) });
      if (warns) assertMatch(stderr, warns);
      await assertFlows(network, flows);
      await assertPredicted(flows, { a, objects, config: configuration(a, config), nodeAddresses });
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
export async function applyOnce(network: Network, input: {
  readonly objects: readonly Manifest[];
  readonly config: Manifest;
}): Promise<string> {
  await using files = await writeInput(input);
  const args = ["--once", "--config", files.config, "--manifests", files.manifests];
  const result = await runSignpost(network, args);
  if (result.code !== 0) throw new CommandError(["signpost", ...args], result);
  if (input.config.mode === "iptables") await applyIptables(network, result.stdout);
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
