/** Compares the answers of `signpost explain` with the outcomes of packets in the kernel. */
import { assertEquals } from "@std/assert";
import { explainPacket, type World } from "../../lib/explain/packet.ts";
import { senderOf } from "../../lib/explain/packet_report.ts";
import { loadConfiguration } from "../../lib/config/load.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { ADDRESSES, type Addresses, type Host, type Manifest, PORT } from "./cluster.ts";
import type { Flow } from "./flow.ts";
import { backendOf } from "../support/modes.ts";

/** The Node of all end-to-end tests. */
const NODE_NAME = "node1";

/** The state that the packets of a test meet. */
export interface PredictionInputs {
  readonly a: Addresses;
  readonly objects: readonly Manifest[];
  /** KubeProxyConfiguration. */
  readonly config: Manifest;
  /** Addresses that the node has besides the usual. */
  readonly nodeAddresses: readonly string[];
}

/** Asserts that explain foretells each flow: verdict, endpoints, masqueraded or not. */
export async function assertPredicted(
  flows: readonly Flow[],
  inputs: PredictionInputs,
): Promise<void> {
  const { a } = inputs;
  const invocation = await loadConfiguration(["--config", "file"], {
    readFile: () => Promise.resolve(JSON.stringify(inputs.config)),
  });
  if (invocation.type !== "run") throw new Error(JSON.stringify(invocation));
  const { configuration } = invocation;
  const mode = configuration.mode || "nftables";
  const backend = backendOf(mode);
  const pipeline = new Pipeline({ configuration, mode, nodeName: NODE_NAME });
  pipeline.load(inputs.objects as readonly ApiObject[]);
  const { cache, desired } = pipeline;
  const own = [4, 6].flatMap((family) => {
    const { node, nodeSecond, loopback } = ADDRESSES[family as 4 | 6];
    return [node, nodeSecond, loopback];
  });
  const ownAddresses = [...own, ...inputs.nodeAddresses];
  const world: World = {
    desired,
    traits: backend.traits,
    ownAddresses,
    rules: backend.rules.describe(desired.node),
  };
  // By which interface a packet comes, its addresses do not tell.
  const isTold = !/Interface/.test(configuration.detectLocalMode);
  for (const flow of flows) {
    const source = flow.source ?? sourceOf(flow, a);
    const { sender } = senderOf(source, { ...world, cache, nodeName: NODE_NAME });
    for (const protocol of flow.protocols ?? ["tcp", "udp"] as const) {
      const packet = { sender, source, address: flow.to, port: flow.port ?? PORT, protocol };
      const outcome = explainPacket(packet, world);
      if (outcome.verdict === "none" && arrivesAnyway(flow, a)) continue;
      const said = outcome.verdict === "dnat"
        ? {
          verdict: "dnat",
          endpoints: outcome.endpoints.map(({ address }) => address).sort(),
          masqueraded: isTold ? outcome.endpoints.map(({ masqueraded }) => masqueraded) : [],
        }
        : { verdict: outcome.verdict };
      const seen = expected(flow, { a, isTold });
      assertEquals(said, seen, `explain: ${source} to ${flow.to}:${packet.port}/${protocol}`);
    }
  }
}

/** The address that the host's packets have. */
function sourceOf({ from, to }: Flow, a: Addresses): string {
  return to.startsWith("127.") || to === "::1" ? a.loopback : a[from];
}

function expected(
  { reaches, masqueraded = false }: Flow,
  { a, isTold }: { readonly a: Addresses; readonly isTold: boolean },
) {
  switch (reaches) {
    case "reject":
    case "drop":
      return { verdict: reaches };
    case "world":
      return { verdict: "none" };
    default:
      return {
        verdict: "dnat",
        endpoints: reaches.map((host: Host) => a[host]).sort(),
        masqueraded: isTold ? reaches.map(() => masqueraded) : [],
      };
  }
}

/** Returns true if a packet that no rule touches reaches a host by its own address, or is refused by it. */
function arrivesAnyway({ to, reaches }: Flow, a: Addresses): boolean {
  if (Array.isArray(reaches)) return reaches.every((host: Host) => a[host] === to);
  return reaches === "reject" && Object.values(a).includes(to);
}
