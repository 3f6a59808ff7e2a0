/** Applies scripts with `iptables-restore` and `ip6tables-restore`. */
import type { FrontendCount } from "../../model/connections.ts";
import { FAMILIES, type Family } from "../../model/values/address.ts";
import { ApplyError, type ScriptWriter } from "../../model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../model/kernel/desired.ts";
import type { Difference } from "../../model/kernel/differences.ts";
import { atOnce, Turns } from "../../model/ports/in_turns.ts";
import type { Clock, ProcessRunner } from "../../model/ports/ports.ts";
import { append } from "../../model/values/lists.ts";
import { CounterSums } from "../metrics.ts";
import { type Iptables, isTcpLiberal, listChain, restore, save } from "./kernel/programs.ts";
import { comparingSaved } from "./kernel_rules.ts";
import { fitToSaved, fullInput } from "./script/full.ts";
import type { Table } from "./script/names.ts";
import { countIn, countsIn, FRONTEND_CHAINS, PACKET_METRICS, RuleCounts } from "./metrics.ts";
import { type FamilyInput, renderFamily } from "./script/rule.ts";
import { parseSaved, type Saved } from "./kernel/saved.ts";
import { fullScript, type IptablesScript, partialScript } from "./script/script.ts";

type UsedIptables = Pick<Iptables, "variant" | "families" | "tcpBeLiberal">;

interface IptablesDataplaneOptions {
  readonly runner: ProcessRunner;
  /** Measures turns of long work. Without it, work runs without a break. */
  readonly clock?: Pick<Clock, "monotonic" | "sleep">;
  readonly iptables: UsedIptables;
  /** Sets `net.ipv4.conf.all.route_localnet`, which node ports on 127.0.0.1 need. Is quick and never rejects. */
  readonly routeLocalnet: () => Promise<void>;
}

/** Applies scripts with one variant of iptables. Each table of each family is one transaction. */
export class IptablesDataplane implements ScriptWriter<IptablesScript> {
  readonly ruleCounts = new RuleCounts();
  readonly #packets = new CounterSums();
  iptables: UsedIptables;
  /** The number of beginnings and ends of `apply`, which is odd during a write. */
  writes = 0;
  /** The state that the last script leads to. */
  #planned: DesiredState | undefined;
  /** The state that the kernel took; `undefined` during a write and after a failed write. */
  #written: DesiredState | undefined;
  /** The value in the last full script. */
  #tcpBeLiberal = false;

  constructor(private readonly options: IptablesDataplaneOptions) {
    this.iptables = options.iptables;
  }

  /** Rereads a sysctl that the rules depend on. @returns the reason for a full sync, or `undefined` */
  async refresh(): Promise<string | undefined> {
    const tcpBeLiberal = await isTcpLiberal(this.options.runner);
    if (tcpBeLiberal === this.iptables.tcpBeLiberal) return undefined;
    this.iptables = { ...this.iptables, tcpBeLiberal };
    return `nf_conntrack_tcp_be_liberal is ${tcpBeLiberal ? "set" : "no longer set"}`;
  }

  full(state: DesiredState): IptablesScript {
    this.#planned = copyOf(state);
    this.#tcpBeLiberal = this.iptables.tcpBeLiberal;
    return fullScript(this.#planned, this.iptables);
  }

  *changing(
    change: StateChange,
    state: DesiredState,
  ): Generator<undefined, IptablesScript | undefined> {
    this.#planned = copyOf(state);
    const script = partialScript(change, state, this.iptables);
    if (script) yield* script.making();
    return script;
  }

  /** Gives the script to the kernel. A full script is adapted to the kernel's rules first. @throws {ApplyError} */
  async apply(script: IptablesScript, checkpoint = () => {}): Promise<void> {
    script.bytes = 0;
    const inputs = await this.#inTurns(script.making());
    this.#written = undefined;
    this.writes++;
    try {
      for (const input of inputs) {
        script.bytes += script.kind === "full"
          ? await this.#replace(input)
          : await this.#restore(input);
        this.ruleCounts.applied(script.kind, input);
        checkpoint();
      }
      this.#written = this.#planned;
    } finally {
      this.writes++;
    }
    // The rule that protects localhost from neighbours is in place now.
    if (script.routeLocalnet) await this.options.routeLocalnet();
  }

  /** Compares the kernel's rules with the rules of the last script. @returns an empty list after a write in between */
  async differences(): Promise<readonly Difference[]> {
    const [state, writes] = [this.#written, this.writes];
    if (!state) return [];
    const found: Difference[] = [];
    for (const family of this.iptables.families) {
      const options = { family, tcpBeLiberal: this.#tcpBeLiberal };
      const input = await this.#inTurns(fullInput(state, options));
      append(found, await this.#inTurns(comparingSaved(input, await this.saved(family))));
    }
    return writes === this.writes ? found : [];
  }

  /** Returns a packet count of both families at the last `readPackets`. */
  packetsOf(metric: string): number {
    return FAMILIES.reduce((sum, family) => sum + this.#packets.sumOf(`${metric} ${family}`), 0);
  }

  /** Reads the packet counters. @throws {ApplyError} if the programs are missing */
  async readPackets(): Promise<void> {
    for (const family of this.iptables.families) {
      for (const metric of PACKET_METRICS.filter((each) => each.families.includes(family))) {
        const count = countIn(metric, await this.#countersIn(family, metric));
        if (count !== undefined) this.#packets.seen(`${metric.name} ${family}`, count);
      }
    }
  }

  /** Reads the connection counts of frontend rules. @throws {ApplyError} if the programs are missing */
  async readFrontends(): Promise<Iterable<FrontendCount>> {
    const listings: [Family, string][] = [];
    for (const family of this.iptables.families) {
      for (const [table, chain] of FRONTEND_CHAINS) {
        listings.push([family, await this.#countersIn(family, { table, chain })]);
      }
    }
    return countsIn(listings);
  }

  /** Lists a chain's rules with counters; `""` if the chain does not exist. */
  async #countersIn(
    family: Family,
    { table, chain }: { readonly table: Table; readonly chain: string },
  ): Promise<string> {
    const place = { ...this.iptables, family, table, chain };
    const listed = await listChain(this.options.runner, place, "-v");
    return listed instanceof ApplyError ? "" : listed;
  }

  /** Reads the kernel's rules of one family. @throws {ApplyError} if they cannot be read */
  async saved(family: Family): Promise<Saved> {
    const text = await save(this.options.runner, { ...this.iptables, family });
    return await this.#inTurns(parseSaved(text));
  }

  /** Replaces all of signpost's rules, whose packet counts begin again. @returns the length written */
  async #replace(input: FamilyInput): Promise<number> {
    const { family } = input;
    const bytes = await this.#restore(fitToSaved(input, await this.saved(family)));
    for (const { name } of PACKET_METRICS) this.#packets.seen(`${name} ${family}`, 0);
    return bytes;
  }

  /** Gives an input to the restore program. @returns the length written */
  async #restore(input: FamilyInput): Promise<number> {
    const text = await this.#inTurns(renderFamily(input));
    const place = { ...this.iptables, family: input.family };
    if (text !== "") await restore(this.options.runner, place, text);
    return text.length;
  }

  async #inTurns<T>(work: Generator<undefined, T>): Promise<T> {
    const { clock } = this.options;
    return clock ? await new Turns(clock).run(work) : atOnce(work);
  }
}

/** Copies a state, which the next sync changes. */
function copyOf({ node, services }: DesiredState): DesiredState {
  return { node, services: new Map(services) };
}
