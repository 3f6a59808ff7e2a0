/** One input of the fuzz run: a cluster of hostile objects beside a Service that means well. */
import { assert, assertEquals } from "@std/assert";
import { IptablesDataplane } from "../../lib/backend/iptables/dataplane.ts";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../lib/backend/nftables/nft.ts";
import type { Mode } from "../../lib/model/configuration.ts";
import type { ScriptWriter } from "../../lib/model/kernel/dataplane.ts";
import { plain } from "../../lib/model/values/text.ts";
import { service, slice } from "../support/cluster.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import type { Random } from "../support/random.ts";
import { COSTLY_KINDS } from "./costly.ts";
import { strangeIptablesLine, strangeNftLine } from "./grammar.ts";
import { anyObject, mutate } from "./hostile.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";

const BANK: readonly ApiObject[] = [
  service({
    namespace: "prod",
    name: "bank",
    metadata: { creationTimestamp: "2025-01-01T00:00:00Z" },
    type: "LoadBalancer",
    clusterIP: "10.96.0.77",
    clusterIPs: ["10.96.0.77", "fd00:10:96::77"],
    loadBalancerSourceRanges: ["198.51.100.0/24"],
    ports: [{ name: "https", protocol: "TCP", port: 443, nodePort: 30077 }],
    ingress: ["203.0.113.77"],
  }),
  slice({
    namespace: "prod",
    service: "bank",
    ports: [{ name: "https", protocol: "TCP", port: 8443 }],
    endpoints: ["10.244.7.7"],
  }),
];

/** Matches lines of a script that are the bank's. */
const BANKS = /prod\/bank|10\.96\.0\.77 |fd00:10:96::77 |203\.0\.113\.77|10\.244\.7\.7/;

const CONFIGURATION = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };
const NOT_RUN = () => Promise.reject(new Error("nothing is run"));

interface ScriptMaker {
  readonly dataplane: () => Pick<ScriptWriter, "full" | "changing">;
  readonly strange: (script: string) => string | undefined;
}

/** The dataplanes make scripts alone: nothing reaches a kernel. */
const MODES: Readonly<Record<Mode, ScriptMaker>> = {
  nftables: {
    dataplane: () => new NftablesDataplane(new Nft({ run: NOT_RUN })),
    strange: strangeNftLine,
  },
  iptables: {
    dataplane: () =>
      new IptablesDataplane({
        runner: { run: NOT_RUN },
        iptables: { variant: "-nft", families: [4, 6], tcpBeLiberal: false },
        routeLocalnet: NOT_RUN,
      }),
    strange: strangeIptablesLine,
  },
};

/** Objects that are large to work out. */
function costly(random: Random): ApiObject[] {
  const kinds = Object.values(COSTLY_KINDS);
  return kinds[random(kinds.length)]?.(1 + random(150)) ?? [];
}

/** Objects of which each has a key of its own, as the API server has them. */
function cluster(random: Random): ApiObject[] {
  return Array.from({ length: 1 + random(5) }, () => {
    const object = anyObject(random);
    return random(4) === 0 ? object : mutate(random, object);
  });
}

/** Whatever the decoder says of an object must be one line that no terminal obeys. */
export function assertHarmless(lines: Iterable<string>): void {
  for (const line of lines) assertEquals(plain(line), line, "a message with control characters");
}

/**
 * Decodes hostile objects and makes the scripts of both modes.
 *
 * @param random what they are follows from it
 * @throws {Error} where something crashes, a line was not meant, or the bank loses a rule
 */
export function fuzzObjects(random: Random): void {
  checkObjects(random(20) === 0 ? costly(random) : cluster(random));
}

/** Holds the scripts of both modes for some objects to what signpost writes. */
export function checkObjects(objects: readonly ApiObject[]): void {
  const isOfCluster = ({ kind }: ApiObject) => kind === "Node" || kind === "ServiceCIDR";
  for (const mode of ["nftables", "iptables"] as const) {
    const { dataplane, strange } = MODES[mode];
    const pipeline = new Pipeline({ mode, configuration: CONFIGURATION });
    pipeline.load([...BANK, ...objects.filter(isOfCluster)]);
    const plane = dataplane();
    const before = plane.full(pipeline.desired).text;
    const step = pipeline.load([...BANK, ...objects]);
    assertHarmless(step.refused.flatMap(({ key, reason }) => [key, reason]));
    assertHarmless(pipeline.cache.takeOmissions().map(({ reason }) => reason));
    const after = plane.full(pipeline.desired).text;
    assertEquals(strange(after), undefined, `${mode}: a line that was not meant`);
    const changing = atOnce(plane.changing(step.change, pipeline.desired))?.text ?? "";
    assertEquals(strange(changing), undefined, `${mode}: a line that was not meant`);
    const lines = new Set(after.split("\n").map(withoutComma));
    const lost = before.split("\n").map(withoutComma).filter((line) =>
      BANKS.test(line) && !lines.has(line)
    );
    assertEquals(lost, [], `${mode}: rules of prod/bank are lost`);
    assert(BANKS.test(before));
  }
}

function withoutComma(line: string): string {
  return line.trim().replace(/,$/, "");
}
