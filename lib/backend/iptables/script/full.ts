/** Builds the full input, and adapts it to the kernel's rules. */
import type { Family } from "../../../model/values/address.ts";
import type {
  DesiredNode,
  DesiredServicePort,
  DesiredState,
} from "../../../model/kernel/desired.ts";
import { fixedChains, type InputOptions } from "./fixed_rules.ts";
import { type Table, TABLES } from "./names.ts";
import {
  comment,
  emptyTable,
  type FamilyInput,
  rule,
  type ServiceRules,
  type SharedRule,
  type TableInput,
} from "./rule.ts";
import {
  isOwnChain,
  jumpsIn,
  referencedByOthers,
  type Saved,
  type SavedTable,
  targetOf,
  wordsOf,
} from "../kernel/saved.ts";
import { serviceRules } from "./service_rules.ts";
import { without } from "../../../model/kernel/differences.ts";

/** Builds one family's complete tables, with Services ordered by name. @yields when other work can run */
export function* fullInput(
  state: DesiredState,
  options: InputOptions,
): Generator<undefined, FamilyInput> {
  const { family } = options;
  const services: ServiceRules[] = [];
  for (const key of [...state.services.keys()].sort()) {
    services.push(rulesOfService(state.services.get(key) ?? [], { family, node: state.node }));
    yield;
  }
  const shared = services.flatMap((each) => each.shared);
  const tables: TableInput[] = [];
  for (const table of TABLES) {
    yield;
    const fixed = fixedChains(table, state.node, options);
    const chains = new Map([
      ...withSharedRules(fixed, shared.filter((rule) => rule.table === table)),
      ...(table === "nat" ? services.flatMap(({ chains }) => [...chains]) : []),
    ]);
    tables.push({ ...emptyTable(table), chains, inserted: JUMPS[table] });
  }
  return { family, tables };
}

export function rulesOfService(
  servicePorts: readonly DesiredServicePort[],
  { family, node }: { readonly family: Family; readonly node: DesiredNode },
): ServiceRules {
  const ports = servicePorts.filter((servicePort) => servicePort.family === family);
  const rules = ports.map((servicePort) => serviceRules(servicePort, node));
  return {
    chains: new Map(rules.flatMap(({ chains }) => [...chains])),
    shared: rules.flatMap(({ shared }) => shared),
  };
}

/** Adds shared rules before (`first`) and after (`last`) the fixed rules. */
function withSharedRules(
  fixed: Readonly<Record<string, readonly string[]>>,
  shared: readonly SharedRule[],
): Map<string, readonly string[]> {
  const at = (place: SharedRule["place"], chain: string) =>
    shared.filter((each) => each.place === place && each.chain === chain).map(({ rule }) => rule);
  const chains = Object.entries(fixed).map(([chain, rules]) =>
    [chain, [...at("first", chain), ...rules, ...at("last", chain)]] as const
  );
  return new Map(chains);
}

/**
 * Adapts the full input to the kernel's rules. Existing jumps stay, and stale chains and jumps of any proxy go. New
 * refusals come first: their packets may find an endpoint until the table `nat` is written.
 */
export function fitToSaved(input: FamilyInput, saved: Saved): FamilyInput {
  const fitted = input.tables.map((table) => {
    const held = saved.get(table.table);
    return held ? fitTable(table, held) : table;
  });
  const ours = new Set(input.tables.map(({ table }) => table));
  // kube-proxy has a canary in `mangle` too.
  const others = [...saved.values()].filter(({ name }) => !ours.has(name))
    .map((held) => fitTable(emptyTable(held.name), held));
  return { ...input, tables: [newRefusals(input, saved), ...fitted, ...others] };
}

/** The first chain with refusals, which kube-proxy's ipvs mode does not have. */
const EXTERNAL_CHAIN = "KUBE-EXTERNAL-SERVICES";

const REFUSING_CHAINS: readonly string[] = [EXTERNAL_CHAIN, "KUBE-SERVICES", "KUBE-PROXY-FIREWALL"];

/** Returns refusals that the kernel lacks; empty after kube-proxy's ipvs mode, whose traffic they would refuse. */
function newRefusals({ tables }: FamilyInput, saved: Saved): TableInput {
  const table = "filter";
  const held = saved.get(table);
  const chains = tables.find((input) => input.table === table)?.chains;
  const refusing = held?.chains.has(EXTERNAL_CHAIN) ? REFUSING_CHAINS : [];
  const inserted = refusing.flatMap((chain) => {
    const there = held?.chains.get(chain);
    const known = new Set(there);
    const wanted = there && chains?.get(chain) || [];
    return wanted.filter((rule) => / -j (?:DROP|REJECT)\b/.test(rule) && !known.has(rule))
      .map((rule) => `${chain} ${rule}`);
  });
  return { ...emptyTable(table), inserted };
}

/** Adapts a table's input to the kernel's rules. @param stays true for a chain that is not removed */
export function fitTable(
  input: TableInput,
  held: SavedTable,
  stays: (chain: string) => boolean = () => false,
): TableInput {
  const jumps = jumpsIn(held);
  const isStale = (chain: string) => isOwnChain(chain) && !input.chains.has(chain) && !stays(chain);
  const stale = [...held.chains.keys()].filter(isStale).sort();
  const kept = stale.length > 0 ? referencedByOthers(held) : new Set<string>();
  return {
    ...input,
    chains: new Map([
      ...input.chains,
      ...stale.filter((chain) => kept.has(chain)).map((chain) => [chain, []] as const),
    ]),
    deleted: without(jumps, { others: input.inserted, keyOf: wordsOf })
      .filter((jump) => !stays(targetOf(jump) ?? "")),
    inserted: without(input.inserted, { others: jumps, keyOf: wordsOf }),
    removed: stale.filter((chain) => !kept.has(chain)),
  };
}

const NEW = "-m conntrack --ctstate NEW";

const EXTERNAL = leadTo("KUBE-EXTERNAL-SERVICES", "externally-visible service portals", NEW);
const HEALTH_CHECKS = leadTo("KUBE-NODEPORTS", "health check service ports");
const REFUSED_SERVICES = leadTo("KUBE-SERVICES", "service portals", NEW);
const FORWARDING = leadTo("KUBE-FORWARD", "forwarding rules");
const FIREWALL = leadTo("KUBE-PROXY-FIREWALL", "load balancer firewall", NEW);
const SERVICES = leadTo("KUBE-SERVICES", "service portals");
const POSTROUTING = leadTo("KUBE-POSTROUTING", "postrouting rules");

/** The jumps, equal to kube-proxy's. Each is inserted at the head of its chain, so the last jump comes first. */
export const JUMPS: Readonly<Record<Table, readonly string[]>> = {
  filter: [
    `INPUT ${EXTERNAL}`,
    `FORWARD ${EXTERNAL}`,
    `INPUT ${HEALTH_CHECKS}`,
    `FORWARD ${REFUSED_SERVICES}`,
    `OUTPUT ${REFUSED_SERVICES}`,
    `FORWARD ${FORWARDING}`,
    `INPUT ${FIREWALL}`,
    `OUTPUT ${FIREWALL}`,
    `FORWARD ${FIREWALL}`,
  ],
  nat: [`OUTPUT ${SERVICES}`, `PREROUTING ${SERVICES}`, `POSTROUTING ${POSTROUTING}`],
};

function leadTo(chain: string, note: string, match = ""): string {
  return rule(match, comment(`kubernetes ${note}`), `-j ${chain}`);
}
