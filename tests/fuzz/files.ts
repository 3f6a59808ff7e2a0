/** One input of the fuzz run: a file that was changed by chance, or on purpose. */
import { stringify } from "@std/yaml/stringify";
import { loadConfiguration } from "../../lib/config/load.ts";
import { AccessError } from "../../lib/source/api/access/access.ts";
import { parseKubeconfig } from "../../lib/source/api/access/kubeconfig.ts";
import { ManifestError, parseManifest } from "../../lib/source/manifests.ts";
import { createDecoder } from "../../lib/source/objects/decode.ts";
import { StateError, stateLines, StateReader } from "../../lib/source/saved/format.ts";
import { type ApiObject, NODE_NAME, Pipeline } from "../support/pipeline.ts";
import type { Random } from "../support/random.ts";
import { anyObject, HOSTILE_TEXT, mutate, pick } from "./hostile.ts";
import { assertHarmless } from "./objects.ts";
import { damage } from "./streams.ts";

/** Damage to the bytes of a text, and hostile words put into it. */
function damageText(random: Random, text: string): string {
  let changed = text;
  for (let left = random(3); left > 0; left--) {
    const at = random(changed.length + 1);
    changed = changed.slice(0, at) + pick(random, HOSTILE_TEXT) + changed.slice(at);
  }
  return new TextDecoder().decode(damage(random, new TextEncoder().encode(changed)));
}

const CONFIGURATION = {
  apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
  kind: "KubeProxyConfiguration",
  mode: "nftables",
  clusterCIDR: "10.244.0.0/16,fd00:10:244::/48",
  bindAddress: "0.0.0.0",
  healthzBindAddress: "0.0.0.0:10256",
  metricsBindAddress: "127.0.0.1:10249",
  nodePortAddresses: ["primary"],
  detectLocalMode: "ClusterCIDR",
  featureGates: { AllowServiceExternalIPs: true },
  nftables: { masqueradeBit: 14, minSyncPeriod: "1s", syncPeriod: "30s" },
  conntrack: { maxPerCore: 32768, min: 131072, tcpEstablishedTimeout: "24h0m0s" },
  clientConnection: { kubeconfig: "/etc/signpost/kubeconfig", qps: 5, burst: 10 },
};

const KUBECONFIG = {
  apiVersion: "v1",
  kind: "Config",
  "current-context": "signpost",
  clusters: [{ name: "c", cluster: { server: "https://192.0.2.1:6443" } }],
  contexts: [{ name: "signpost", context: { cluster: "c", user: "u" } }],
  users: [{ name: "u", user: { token: "abc" } }],
};

/** A tree of values with a few of them changed, as text. */
function changedYaml(random: Random, value: object): string {
  const copy = mutate(random, structuredClone(value) as ApiObject);
  const text = random(2) === 0
    ? JSON.stringify(copy)
    : stringify(JSON.parse(JSON.stringify(copy)), { skipInvalid: true });
  return random(2) === 0 ? text : damageText(random, text);
}

async function fuzzConfiguration(random: Random): Promise<void> {
  const text = changedYaml(random, CONFIGURATION);
  const invocation = await loadConfiguration(["--config", "file"], {
    readFile: () => Promise.resolve(text),
  });
  if (invocation.type !== "errors" && invocation.type !== "run") return;
  if (invocation.type === "errors") assertHarmless(invocation.errors);
  assertHarmless(invocation.warnings);
}

function fuzzKubeconfig(random: Random): void {
  expect(AccessError, () => parseKubeconfig(changedYaml(random, KUBECONFIG), { path: "/k" }));
}

function fuzzManifest(random: Random): void {
  const text = Array.from({ length: 1 + random(3) }, () => changedYaml(random, anyObject(random)))
    .join("\n---\n");
  expect(ManifestError, () => {
    const { leftOut } = parseManifest(text, {
      file: "f.yaml",
      decode: createDecoder(),
      nodeName: NODE_NAME,
    });
    assertHarmless(leftOut);
  });
}

/** A state that signpost wrote is read; one that was changed is read or refused. */
function fuzzState(random: Random): void {
  const pipeline = new Pipeline();
  const objects = Array.from({ length: 1 + random(4) }, () => mutate(random, anyObject(random)));
  // Of Nodes, the sources give this one alone.
  pipeline.load(objects.filter(({ kind, metadata }) => kind !== "Node" || isOwn(metadata)));
  const header = { nodeName: NODE_NAME, written: 1_700_000_000_000 };
  const { services, slices, node, serviceCIDRs } = pipeline.cache;
  const text = [...stateLines({ services, slices, node, serviceCIDRs }, header)].join("");
  const changed = random(4) === 0 ? text : damageText(random, text);
  const read = () => {
    const reader = new StateReader({ nodeName: NODE_NAME, decode: createDecoder() });
    const half = random(changed.length + 1);
    reader.push(changed.slice(0, half));
    reader.push(changed.slice(half));
    return reader.finish();
  };
  if (changed === text) read();
  else expect(StateError, read);
}

function isOwn(metadata: unknown): boolean {
  return typeof metadata === "object" && metadata !== null && "name" in metadata &&
    metadata.name === NODE_NAME;
}

type ErrorType = new (...args: never[]) => Error;

function expect(type: ErrorType, action: () => unknown): void {
  try {
    action();
  } catch (error) {
    if (!(error instanceof type)) throw error;
    assertHarmless(error.message.split("\n"));
  }
}

/**
 * Reads a changed configuration file, kubeconfig, manifest or state file.
 *
 * @param random what it is follows from it
 * @throws {Error} where anything but an error of the file comes of it
 */
export async function fuzzFile(random: Random): Promise<void> {
  switch (random(4)) {
    case 0:
      return await fuzzConfiguration(random);
    case 1:
      return fuzzKubeconfig(random);
    case 2:
      return fuzzManifest(random);
    default:
      return fuzzState(random);
  }
}
