/** Checks that this kernel and this `nft` accept signpost's rules, and finds what they refuse. */
import { ApplyError } from "../../model/kernel/dataplane.ts";
import type { DesiredNode, DesiredServicePort } from "../../model/kernel/desired.ts";
import { type Feature, FEATURES, type RefusedFeatures } from "../../model/kernel/traits.ts";
import { FullScript } from "./write.ts";
import { TABLE } from "./table.ts";
import { isRefusal, type Nft } from "./nft.ts";
import { oneLine } from "../../model/values/text.ts";
import { FAMILIES, type Family } from "../../model/values/address.ts";

/** Is never written, but listings show it for a moment while the kernel undoes a check. */
const PROBE_TABLE = "inet signpost-probe";

/** Expressions that all tables use, with their kernel modules, and the hook of a chain that may have them. */
const EXPRESSIONS: readonly (readonly [
  name: string,
  module: string,
  rule: string,
  hook?: string,
])[] = [
  ["fib", "nft_fib_inet", "fib saddr type local accept"],
  ["numgen", "nft_numgen", "numgen random mod 2 0 accept"],
  ["ct", "nft_ct", "ct state new accept"],
  ["reject", "nft_reject_inet", "reject"],
  ["dnat", "nft_nat", "meta l4proto tcp dnat ip to 192.0.2.1:80", "nat hook prerouting"],
  ["masquerade", "nft_masq", "masquerade fully-random", "nat hook postrouting"],
];

interface ProbeOptions {
  readonly node: DesiredNode;
  readonly kernel: string;
}

/** Checks a table with all expressions in the kernel. @returns refused features that rules can do without */
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
    if (!error) continue;
    const advice = feature === "acceleration" ? FLOWTABLE_ADVICE : adviceFor(error);
    refused.set(feature, `${refusalOf(error, versions)}; ${advice}`);
  }
  return refused;
}

/** Checks a table with these features. @returns the refusal */
async function checkTable(
  nft: Nft,
  { acceleration, ...node }: DesiredNode,
  features: readonly Feature[],
): Promise<ApplyError | undefined> {
  const has = (feature: Feature) => features.includes(feature);
  const services = PROBE_SERVICES.filter(({ family }) => node.ipFamilies.includes(family))
    .map(({ scheduler, ...port }): DesiredServicePort => ({
      ...port,
      ...scheduler && has("hash") ? { scheduler } : {},
      sourceRanges: has("source-ranges") ? port.sourceRanges : [],
      affinitySeconds: has("session-affinity") ? port.affinitySeconds : 0,
    }));
  const { text } = new FullScript({
    node: {
      ...node,
      ...acceleration && has("acceleration") ? { acceleration } : {},
      countsConnections: node.countsConnections && has("connection-counters"),
    },
    services: new Map([["probe", services]]),
  });
  return await check(nft, text.replaceAll(`table ${TABLE}`, `table ${PROBE_TABLE}`));
}

/** Checks a script. @returns the refusal */
async function check(nft: Nft, text: string): Promise<ApplyError | undefined> {
  try {
    await nft.check(text);
    return undefined;
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error;
  }
}

async function explain(
  nft: Nft,
  { refused, versions }: { readonly refused: ApplyError; readonly versions: Versions },
): Promise<string> {
  // Without nf_tables in the kernel, the cause is not an expression.
  const bare = await check(nft, `table ${PROBE_TABLE} {\n}\n`);
  if (bare) return `${refusalOf(bare, versions)}; ${adviceFor(bare)}`;
  const [missing, advice] = [[] as string[], new Set<string>()];
  for (const [name, module, rule, hook = "filter hook input"] of EXPRESSIONS) {
    const chain = `type ${hook} priority 0;\n    ${rule}\n`;
    const error = await check(nft, `table ${PROBE_TABLE} {\n  chain probe {\n    ${chain}  }\n}\n`);
    if (!error) continue;
    missing.push(`${name} (kernel module ${module}, CONFIG_${module.toUpperCase()})`);
    advice.add(adviceFor(error, [module]));
  }
  const refusal = refusalOf(refused, versions);
  if (missing.length === 0) return `${refusal}; ${adviceFor(refused)}`;
  return `${refusal}; the rules need expressions that are not available: ${missing.join(", ")}; ${
    [...advice].join("; ")
  }`;
}

interface Versions {
  readonly nft: string;
  readonly kernel: string;
}

const LONGEST_QUOTE = 240;

/** Returns one line: `nft 1.0.6 on kernel 6.12.117 refuses: "Error: …" at "…"`. */
function refusalOf(error: ApplyError, { nft, kernel }: Versions): string {
  const { words, rule } = quote(error);
  const place = rule === "" ? "" : ` at "${rule}"`;
  return `nft ${nft || "of an unknown version"} on kernel ${kernel} refuses: "${words}"${place}`;
}

/** Returns the first error, and the line of the script that nft prints below it. */
function quote({ cause, message }: ApplyError): { readonly words: string; readonly rule: string } {
  const lines = typeof cause === "string" ? cause.split("\n") : [message];
  const at = lines.findIndex((line) => line.includes("Error:"));
  const words = (lines[at] ?? lines[0] ?? "").replace(/^.*?(?=Error:)/, "");
  const rule = at < 0 ? "" : lines[at + 1] ?? "";
  return { words: oneLine(words, LONGEST_QUOTE), rule: oneLine(rule, LONGEST_QUOTE) };
}

/** In the order of systemd/signpost-modules.conf. */
export const NFTABLES_MODULES: readonly string[] = [
  "nf_tables",
  "nf_conntrack",
  "nft_ct",
  "nft_chain_nat",
  "nft_nat",
  "nft_masq",
  "nft_numgen",
  "nft_fib_inet",
  "nft_reject_inet",
];

const FLOWTABLE_ADVICE = "a kernel module may be missing: run modprobe -a nft_flow_offload " +
  "nf_flow_table_inet on the node itself, and restart signpost";

function adviceFor(
  { cause, message }: ApplyError,
  modules: readonly string[] = NFTABLES_MODULES,
): string {
  const said = typeof cause === "string" ? cause : message;
  if (/syntax error|typeof serialization|variable sized|unknown|unexpected/i.test(said)) {
    return "this nft does not know it: install nft 1.0.6 or newer, or use --proxy-mode iptables";
  }
  if (/No such file or directory|Protocol not supported|not supported by protocol/.test(said)) {
    return `a kernel module is missing: run modprobe -a ${modules.join(" ")} on the node itself ` +
      "(systemd/signpost-modules.conf does so at boot), or use --proxy-mode iptables";
  }
  return "use an nft or a kernel that takes it, or --proxy-mode iptables";
}

/** Documentation ranges (RFC 5737, RFC 3849). */
const PREFIX: Readonly<Record<Family, string>> = { 4: "192.0.2.", 6: "2001:db8::" };
const SOURCES: Readonly<Record<Family, string>> = { 4: "198.51.100.0/24", 6: "2001:db8:1::/64" };

/** Service ports that use every kind of rule. */
export const PROBE_SERVICES: readonly DesiredServicePort[] = FAMILIES.flatMap((
  family,
): DesiredServicePort[] => {
  const address = (last: number) => `${PREFIX[family]}${last}`;
  const cluster: DesiredServicePort = {
    name: "probe/cluster",
    family,
    protocol: "tcp",
    port: 80,
    clusterIPs: [address(1)],
    externalIPs: [address(2)],
    loadBalancerIPs: [address(3)],
    nodePort: 30080,
    sourceRanges: [SOURCES[family]],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    affinitySeconds: 0,
    clusterEndpoints: [{ address: address(4), port: 80, local: true, hairpin: true }],
    localEndpoints: [{ address: address(4), port: 80, local: true, hairpin: true }],
    hasEndpoints: true,
  };
  return [
    cluster,
    { ...cluster, name: "probe/local", protocol: "udp", externalTrafficPolicy: "Local" },
    { ...cluster, name: "probe/sticky", protocol: "sctp", affinitySeconds: 10_800 },
    {
      ...cluster,
      name: "probe/hashed",
      port: 82,
      nodePort: 30082,
      scheduler: { type: "consistent-hash", hash: "source-and-port", tableSize: 2 },
    },
    {
      ...cluster,
      name: "probe/empty",
      port: 81,
      nodePort: 30081,
      clusterEndpoints: [],
      localEndpoints: [],
      hasEndpoints: false,
    },
  ];
});
