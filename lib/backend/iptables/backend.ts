/** Implements the iptables mode with kube-proxy's chains. */
import { finding } from "../../findings/catalog.ts";
import { FAMILIES, type Family } from "../../model/values/address.ts";
import { ApplyError, type Dataplane, type Drift } from "../../model/kernel/dataplane.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import {
  type Backend,
  type BackendOptions,
  familiesBut,
  missingFamilies,
  type Probed,
  type RuleReader,
} from "../backend.ts";
import { legacyChains, nftChains, readRoutes } from "../foreign_filters.ts";
import { boundedReading } from "../../model/values/timing.ts";
import { setRouteLocalnet } from "../sysctl.ts";
import { kubeProxyProcesses, ProxyTakeOver } from "../take_over.ts";
import { IptablesDataplane } from "./dataplane.ts";
import { isJump, isOwnChain, type Saved, targetOf } from "./kernel/saved.ts";
import { type FamilyVariant, findIptables, type Iptables, listChain } from "./kernel/programs.ts";
import { iptablesMetrics } from "./metrics.ts";
import { iptablesChanges, iptablesNames, iptablesRules } from "./kernel_rules.ts";
import type { IptablesScript } from "./script/script.ts";
import type { Difference } from "../../model/kernel/differences.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, ProcessRunner, ProcessStreamer } from "../../model/ports/ports.ts";
import { hash32 } from "../../model/values/hash.ts";
import { append } from "../../model/values/lists.ts";
import { JUMPS } from "./script/full.ts";
import { CANARY_CHAIN, programName, type Table, TABLES } from "./script/names.ts";

const TRAITS: ModeTraits = {
  name: "iptables",
  primaryNodePorts: false,
  localhostNodePorts: "rules",
  guardsClusterIPs: false,
  refuses: new Map([
    ["hash", "iptables cannot, nftables can"],
    ["acceleration", "iptables cannot, nftables can"],
  ]),
  parts: "rules",
};

const ANY_IPTABLES = { variant: "", families: FAMILIES, tcpBeLiberal: false } as const;

export function iptablesBackend(options: BackendOptions): Backend {
  const { runtime } = options;
  // A sysctl that hangs must not delay a sync for long. A node finding reports a failure.
  const setBriefly = boundedReading({
    clock: runtime.clock,
    refresh: () => setRouteLocalnet(runtime.runner),
    known: () => {},
  });
  const rules = new IptablesDataplane({
    ...runtime,
    iptables: ANY_IPTABLES,
    routeLocalnet: () => setBriefly(0),
  });
  let found: Iptables | undefined;
  /** Finds the node's iptables once, since it does not change while the process runs. */
  const find = async () => {
    if (found) return found;
    found = await findIptables(runtime.runner, familiesBut(missingFamilies(runtime)));
    rules.iptables = found;
    return found;
  };
  const variant = async () => (await find()).variant;
  const foreignRules = new ProxyTakeOver({ ...runtime, ...options, variant });
  return {
    traits: TRAITS,
    probe: async () => probed(await find(), missingFamilies(runtime)),
    dataplane: maintainedRules(rules, { ...options, foreignRules }),
    rules: ruleReader(rules, { runtime, find }),
    foreignRules,
    metrics: iptablesMetrics({ clock: runtime.clock, dataplane: rules }),
    // The first script is a full script.
    connections: { areOurs: true, read: () => rules.readFrontends() },
  };
}

function probed(found: Iptables, missingHere: Probed["missing"]): Probed {
  const { reason, mixed, missing, version } = found;
  return {
    version,
    missing: new Map([...missingHere, ...missing]),
    refusedFeatures: new Map(),
    findings: [
      ...mixed ? [finding("iptables-variants-mixed", { what: MIXED, where: "iptables" })] : [],
      ...[...missing].map(([family, reason]) =>
        finding("ip-family-not-written", {
          what: `no IPv${family} rules: ${reason}`,
          where: `IPv${family}`,
        })
      ),
    ],
    choice: `iptables variant: ${reason}`,
  };
}

/** Adds to the rules the take-over, and looks for drift. */
function maintainedRules(
  rules: IptablesDataplane,
  { configuration, runtime, foreignRules }: BackendOptions & {
    readonly foreignRules: ProxyTakeOver;
  },
): Dataplane<IptablesScript> {
  const drifts = new DriftLook({
    ...runtime,
    writes: () => rules.writes,
    differences: () => rules.differences(),
    hasRival: async () => (await kubeProxyProcesses(runtime)).length > 0,
  });
  const lookForDrift: Dataplane["watchDrift"] = async ({ onDrift, onChange, signal }) => {
    const change = await rules.refresh();
    if (change !== undefined) onChange(change);
    const drift = await drifts.look(rules.iptables, signal).catch(() => undefined);
    if (drift && !signal.aborted) onDrift(drift);
  };
  return {
    full: (state) => rules.full(state),
    changing: (change, state) => rules.changing(change, state),
    async apply(script, checkpoint) {
      await foreignRules.prepare();
      await rules.apply(script, checkpoint);
    },
    // As in kube-proxy, a full sync repairs the rules.
    repair: () => Promise.resolve(undefined),
    /** Looks at the rules every sync period. */
    async watchDrift(options) {
      const { signal } = options;
      while (!signal.aborted) {
        await runtime.clock.sleep(configuration.iptables.syncPeriod, signal);
        if (!signal.aborted) await lookForDrift(options);
      }
    },
    lookForDrift,
  };
}

function ruleReader(
  rules: IptablesDataplane,
  { runtime, find }: Pick<BackendOptions, "runtime"> & { readonly find: () => Promise<Iptables> },
): RuleReader {
  return {
    describe: iptablesNames,
    changesFrom: () => iptablesChanges,
    async read() {
      const { families, tcpBeLiberal } = await find();
      const held = new Map<Family, Saved>();
      for (const family of families) held.set(family, await rules.saved(family));
      return iptablesRules(held, tcpBeLiberal);
    },
    async readRuleset() {
      const chains = [...await nftChains(runtime.runner), ...await legacyChains(runtime)];
      return { chains, routes: await readRoutes(runtime.runner) };
    },
  };
}

const MIXED =
  "both iptables-nft and iptables-legacy have rules on this node; programs of one variant do not see rules of the other";

interface DriftLookOptions {
  readonly runner: ProcessRunner;
  readonly streamer: ProcessStreamer;
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** The number of beginnings and ends of our own writes, which is odd during a write. */
  readonly writes: () => number;
  /** Compares the kernel's rules with the rules that we wrote last. @throws {ApplyError} */
  readonly differences: () => Promise<readonly Pick<Difference, "type" | "in">[]>;
  /** Returns true if a kube-proxy runs. Then drift is not reported: both programs would write their rules in turn. */
  readonly hasRival: () => Promise<boolean>;
}

/** Our part of a table, as `iptables-save` printed it. */
interface Summary {
  readonly chains: number;
  readonly rules: number;
  readonly hash: number;
  readonly hasCanary: boolean;
  /** `PREROUTING KUBE-SERVICES` */
  readonly jumps: ReadonlySet<string>;
}

/** Milliseconds after which a look ends. */
const LONGEST_LOOK = 60_000;

/** The beginning of a difference that only the content of a table shows. */
const CONTENT = "rules of ";

interface Content {
  readonly missing: readonly string[];
  readonly added: readonly string[];
}

/** Compares the rules with the last look by a hash. The first look after a write compares with the desired rules. */
export class DriftLook {
  /** By family and table: `iptables nat`. */
  #known = new Map<string, Summary>();
  /** The value of `writes` at that look. */
  #knownAt = -1;

  constructor(private readonly options: DriftLookOptions) {}

  /** Looks once. @returns `undefined` without a change @throws {ApplyError} if iptables is missing */
  async look(
    { variant, families }: Pick<Iptables, "variant" | "families">,
    signal: AbortSignal,
  ): Promise<Drift | undefined> {
    const { clock, writes } = this.options;
    const begun = writes();
    const over = new AbortController();
    void clock.sleep(LONGEST_LOOK, over.signal).then(() => over.abort());
    const missing: string[] = [];
    const seen = new Map<string, Summary>();
    try {
      for (const family of families) {
        const place = { family, variant };
        const tables = await this.#read(place, AbortSignal.any([signal, over.signal]));
        for (const table of TABLES) {
          const name = `${programName(family, "")} ${table}`;
          const summary = tables.get(table);
          if (summary?.hasCanary) {
            seen.set(name, summary);
            for (const jump of missingJumps(table, summary)) missing.push(`${name} ${jump}`);
          } else if (summary || await this.#lacksCanary(place, table)) {
            missing.push(name);
          }
        }
      }
    } finally {
      over.abort();
    }
    const isIncomplete = missing.length > 0;
    const added: string[] = [];
    if (!isIncomplete && begun % 2 === 0 && begun === writes()) {
      const found = begun === this.#knownAt ? this.#changes(seen) : await this.#differences();
      append(missing, found.missing);
      append(added, found.added);
      if (begun !== this.#knownAt && missing.length + added.length === 0) {
        [this.#known, this.#knownAt] = [seen, begun];
      }
    }
    if (missing.length + added.length === 0) return undefined;
    if (!isIncomplete && await this.options.hasRival()) return undefined;
    return { missing: missing.join(", "), added: added.join(", "), by: "" };
  }

  #changes(seen: ReadonlyMap<string, Summary>): Content {
    const [missing, added]: [string[], string[]] = [[], []];
    for (const [name, summary] of seen) {
      const known = this.#known.get(name);
      if (!known || known.hash === summary.hash) continue;
      const more = summary.rules - known.rules || summary.chains - known.chains;
      if (more <= 0) missing.push(CONTENT + name);
      if (more >= 0) added.push(CONTENT + name);
    }
    return { missing, added };
  }

  async #differences(): Promise<Content> {
    const found = await this.options.differences();
    const without = (type: Difference["type"]) => {
      const places = found.filter((each) => each.type !== type).map((each) => each.in);
      return [...new Set(places.map((place) => CONTENT + place.split(" ", 2).join(" ")))];
    };
    return { missing: without("extra"), added: without("missing") };
  }

  /** Reads the tables that were printed to their ends. The text may have many MB, so lines are not kept. */
  async #read(
    { family, variant }: FamilyVariant,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, Summary>> {
    const { clock, streamer } = this.options;
    const tables = new Map<string, Summary>();
    const builtIn = new Set<string>();
    let name = "";
    let [chains, rules, hash, hasCanary, jumps] = [0, 0, 0, false, new Set<string>()];
    const program = programName(family, "-save", variant);
    const turns = new Turns(clock);
    for await (const line of streamer.lines([program], signal)) {
      await turns.yieldIfDue();
      if (line.startsWith("-A ")) {
        const end = `${line} `.indexOf(" ", 3);
        const chain = line.slice(3, end);
        const rule = line.slice(end + 1);
        const isOurJump = builtIn.has(chain) && isJump(rule);
        if (!isOurJump && !isOwnChain(chain)) continue;
        if (isOurJump) jumps.add(`${chain} ${targetOf(rule)}`);
        rules++;
        hash = hash32(line, hash);
      } else if (line.startsWith(":")) {
        const [chain = "", policy = ""] = line.slice(1).split(" ");
        if (policy !== "-") builtIn.add(chain);
        else if (isOwnChain(chain)) {
          chains++;
          hasCanary ||= chain === CANARY_CHAIN;
          hash = hash32(chain, hash);
        }
      } else if (line.startsWith("*")) {
        name = line.slice(1);
        builtIn.clear();
        [chains, rules, hash, hasCanary, jumps] = [0, 0, 0, false, new Set()];
      } else if (line === "COMMIT") {
        tables.set(name, { chains, rules, hash, hasCanary, jumps });
      }
    }
    return tables;
  }

  /** Asks for the canary of a table that was not printed: it may be gone, or locked. @throws {ApplyError} */
  async #lacksCanary(place: FamilyVariant, table: Table): Promise<boolean> {
    const listed = await listChain(this.options.runner, { ...place, table, chain: CANARY_CHAIN });
    return listed instanceof ApplyError && listed.failure !== "busy";
  }
}

function missingJumps(table: Table, { jumps }: Summary): string[] {
  const wanted = JUMPS[table].map((jump) => `${jump.split(" ", 1)[0]} ${targetOf(jump)}`);
  return wanted.filter((jump) => !jumps.has(jump)).map((jump) => `jump ${jump}`);
}
