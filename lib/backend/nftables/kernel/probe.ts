/**
 * Finds out whether this kernel and this `nft` can carry signpost's rules, and what is refused if not.
 *
 * @module
 */
import { ApplyError, type ApplyFailure } from "../../../model/kernel/dataplane.ts";
import type { DesiredNode, DesiredServicePort } from "../../../model/kernel/desired.ts";
import type { Feature, RefusedFeatures } from "../../../model/kernel/traits.ts";
import { FullScript } from "../script/full_script.ts";
import { TABLE } from "../script/objects.ts";
import type { Nft } from "./nft.ts";
import { adviceFor, refusalOf, type Versions } from "./refusal.ts";
import { PROBE_SERVICES } from "./probe_services.ts";

/** No table of this name is ever there, but listings see it for a moment while the kernel takes a check back. */
const PROBE_TABLE = "inet signpost-probe";

/** Expressions that all tables use, each by itself, with the kernel module and option of each. */
const EXPRESSIONS: readonly (readonly [
  name: string,
  module: string,
  option: string,
  rule: string,
])[] = [
  ["fib", "nft_fib_inet", "CONFIG_NFT_FIB_INET", "fib saddr type local accept"],
  ["numgen", "nft_numgen", "CONFIG_NFT_NUMGEN", "numgen random mod 2 0 accept"],
  ["ct", "nft_ct", "CONFIG_NFT_CT", "ct state new accept"],
  ["reject", "nft_reject_inet", "CONFIG_NFT_REJECT_INET", "reject"],
  ["dnat", "nft_nat", "CONFIG_NFT_NAT", "meta l4proto tcp dnat ip to 192.0.2.1:80"],
  ["masquerade", "nft_masq", "CONFIG_NFT_MASQ", "masquerade fully-random"],
];

const HOOKS: Readonly<Record<string, string>> = {
  dnat: "nat hook prerouting priority -101",
  masquerade: "nat hook postrouting priority 100",
};

/** Failures that say nothing of what the kernel can do. */
const NOT_OF_THE_KERNEL: ReadonlySet<ApplyFailure> = new Set([
  "not-permitted",
  "owned",
  "program-missing",
  "program-failed",
  "unreadable",
]);

/** What is asked about. */
interface Asked {
  readonly node: DesiredNode;
  readonly services: readonly DesiredServicePort[];
}

/** The same without what needs a feature. */
const WITHOUT: Readonly<Record<Feature, (asked: Asked) => Asked>> = {
  "source-ranges": ({ node, services }) => ({
    node,
    services: services.map((port) => ({ ...port, sourceRanges: [] })),
  }),
  "session-affinity": ({ node, services }) => ({
    node,
    services: services.map((port) => ({ ...port, affinitySeconds: 0 })),
  }),
  hash: ({ node, services }) => ({
    node,
    services: services.map(({ scheduler: _, ...port }) => port),
  }),
  "connection-counters": ({ node, services }) => ({
    node: { ...node, countsConnections: false },
    services,
  }),
};
const FEATURES = Object.keys(WITHOUT) as Feature[];

/** What the probe asks about. */
export interface ProbeOptions {
  /** The node's part of the rules. */
  readonly node: DesiredNode;
  /** The kernel's release, for messages. */
  readonly kernel: string;
}

/**
 * Has the kernel check a table with every expression that signpost may use, and takes nothing.
 *
 * @returns what rules can do without, and is refused
 * @throws {ApplyError} that says what all tables need, how it was refused, and what to do
 */
export async function probe(nft: Nft, { node, kernel }: ProbeOptions): Promise<RefusedFeatures> {
  const all = await checkTable(nft, node, FEATURES);
  if (all === undefined) return new Map();
  const versions = { nft: await nft.version().catch(() => ""), kernel };
  const base = await checkTable(nft, node, []);
  if (base !== undefined) {
    const message = await explain(nft, { refused: base, versions });
    throw new ApplyError("not-supported", message, { cause: base });
  }
  const refused = new Map<Feature, string>();
  for (const feature of FEATURES) {
    const error = await checkTable(nft, node, [feature]);
    if (error) refused.set(feature, `${refusalOf(error, versions)}; ${adviceFor(error)}`);
  }
  return refused;
}

/** @returns the refusal of a table with these features; `undefined`: it is taken */
async function checkTable(
  nft: Nft,
  node: DesiredNode,
  features: readonly Feature[],
): Promise<ApplyError | undefined> {
  const without = FEATURES.filter((feature) => !features.includes(feature));
  const services = PROBE_SERVICES.filter(({ family }) => node.ipFamilies.includes(family));
  const asked = without.reduce<Asked>(
    (left, feature) => WITHOUT[feature](left),
    { node, services },
  );
  const state = { node: asked.node, services: new Map([["probe", asked.services]]) };
  const { text } = new FullScript(state);
  return await check(nft, text.replaceAll(`table ${TABLE}`, `table ${PROBE_TABLE}`));
}

/** @returns the refusal; `undefined`: the script is taken */
async function check(nft: Nft, text: string): Promise<ApplyError | undefined> {
  try {
    await nft.check(text);
    return undefined;
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    if (NOT_OF_THE_KERNEL.has(error.failure)) throw error;
    return error;
  }
}

/** Tries each expression by itself. */
async function explain(
  nft: Nft,
  { refused, versions }: { readonly refused: ApplyError; readonly versions: Versions },
): Promise<string> {
  // Where there is no nf_tables at all, no expression is to blame.
  const bare = await check(nft, `table ${PROBE_TABLE} {\n}\n`);
  if (bare) return `${refusalOf(bare, versions)}; ${adviceFor(bare)}`;
  const missing: { readonly text: string; readonly advice: string }[] = [];
  for (const [name, module, option, rule] of EXPRESSIONS) {
    const hook = HOOKS[name] ?? "filter hook input priority 0";
    const error = await check(
      nft,
      `table ${PROBE_TABLE} {\n  chain probe {\n    type ${hook};\n    ${rule}\n  }\n}\n`,
    );
    if (error) {
      missing.push({
        text: `${name} (kernel module ${module}, ${option})`,
        advice: adviceFor(error, { modules: [module] }),
      });
    }
  }
  const refusal = refusalOf(refused, versions);
  if (missing.length === 0) return `${refusal}; ${adviceFor(refused)}`;
  const parts = missing.map(({ text }) => text).join(", ");
  const advice = [...new Set(missing.map(({ advice }) => advice))].join("; ");
  return `${refusal}; of what the rules need, ${parts} cannot be had; ${advice}`;
}
