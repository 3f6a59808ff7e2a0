/**
 * Applies scripts with `iptables-restore` and `ip6tables-restore`.
 * @module
 */
import type { FrontendCount } from "../../model/connections.ts";
import type { Family } from "../../model/values/address.ts";
import { type Dataplane, rethrowAsApplyError } from "../../model/kernel/dataplane.ts";
import type { DesiredState, StateChange } from "../../model/kernel/desired.ts";
import { atOnce, Turns } from "../../model/ports/in_turns.ts";
import {
  type Clock,
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../model/ports/ports.ts";
import {
  failureOf,
  type Iptables,
  isTcpLiberal,
  LOCK_WAIT_SECONDS,
  missingProgram,
} from "./kernel/programs.ts";
import { fitToSaved } from "./script/full.ts";
import { CANARY_CHAIN, programName, type Table, TABLES } from "./script/names.ts";
import {
  countedIn,
  countIn,
  countsIn,
  FRONTEND_CHAINS,
  type PacketCounts,
  PacketSums,
  type RuleCount,
  RuleCounts,
} from "./metrics.ts";
import { type FamilyInput, renderFamily } from "./script/rule.ts";
import { parseSaved, type Saved } from "./kernel/saved.ts";
import { fullScript, type IptablesScript, partialScript } from "./script/script.ts";

/** The iptables in use: the result of `findIptables`. */
type UsedIptables = Pick<Iptables, "backend" | "families" | "abilities">;

/** The ports and settings of the dataplane. */
interface IptablesDataplaneOptions {
  readonly runner: ProcessRunner;
  /** Measures turns of long work. Without it, work runs without a break. */
  readonly clock?: Pick<Clock, "monotonic" | "sleep">;
  readonly iptables: UsedIptables;
  /**
   * Sets `net.ipv4.conf.all.route_localnet`, which node ports on 127.0.0.1 need. Must be quick and never reject.
   */
  readonly routeLocalnet: () => Promise<void>;
}

/** Applies scripts with one variant of iptables. Each table of each family is one transaction. */
export class IptablesDataplane implements Dataplane<IptablesScript> {
  readonly #options: IptablesDataplaneOptions;
  readonly #counts = new RuleCounts();
  readonly #packets = new PacketSums();
  #iptables: UsedIptables;

  constructor(options: IptablesDataplaneOptions) {
    this.#options = options;
    this.#iptables = options.iptables;
  }

  /** Uses this iptables from now on. */
  use(iptables: UsedIptables): void {
    this.#iptables = iptables;
  }

  /**
   * Checks if the administrator changed a sysctl that the rules depend on.
   * @returns the reason for a full sync, or `undefined`
   */
  async refresh(): Promise<string | undefined> {
    const { abilities } = this.#iptables;
    const tcpBeLiberal = await isTcpLiberal(this.#options.runner);
    if (tcpBeLiberal === (abilities.tcpBeLiberal ?? false)) return undefined;
    this.#iptables = { ...this.#iptables, abilities: { ...abilities, tcpBeLiberal } };
    return `nf_conntrack_tcp_be_liberal is ${tcpBeLiberal ? "set" : "not set any more"}`;
  }

  full(state: DesiredState): IptablesScript {
    return fullScript(state, this.#iptables);
  }

  *changing(
    change: StateChange,
    state: DesiredState,
  ): Generator<undefined, IptablesScript | undefined> {
    const script = partialScript(change, state, this.#iptables);
    if (script) yield* script.making();
    return script;
  }

  /**
   * Gives the script to the kernel. A full one is adapted to the kernel's rules first.
   * @param checkpoint called after each family
   * @throws {ApplyError} if a restore program did not take it
   */
  async apply(script: IptablesScript, checkpoint = () => {}): Promise<void> {
    script.bytes = 0;
    for (const input of await this.#inTurns(script.making())) {
      script.bytes += script.kind === "full"
        ? await this.#replace(input)
        : await this.#restore(input);
      this.#counts.applied(script.kind, input);
      checkpoint();
    }
    // The rule that protects localhost from neighbours is in place now.
    if (script.routeLocalnet) await this.#options.routeLocalnet();
  }

  get ruleCounts(): Iterable<RuleCount> {
    return this.#counts.counts;
  }

  /** Returns the packet counts at the last `readPackets` or full script. */
  get packets(): PacketCounts {
    return this.#packets.counts;
  }

  /**
   * Reads the packet counters.
   * @throws {ApplyError} if the programs are missing
   */
  async readPackets(): Promise<void> {
    for (const family of this.#iptables.families) {
      const program = programName(family, "", this.#iptables.backend);
      for (const { what, place } of countedIn(family)) {
        const count = countIn(what, await this.#listChain(program, place));
        if (count !== undefined) this.#packets.seen(what, family, count);
      }
    }
  }

  /**
   * Reads the connection counts of frontend rules.
   * @throws {ApplyError} if the programs are missing
   */
  async readFrontends(): Promise<Iterable<FrontendCount>> {
    const listings: [Family, string][] = [];
    for (const family of this.#iptables.families) {
      const program = programName(family, "", this.#iptables.backend);
      for (const chain of FRONTEND_CHAINS) {
        listings.push([family, await this.#listChain(program, { table: "nat", chain })]);
      }
    }
    return countsIn(listings);
  }

  /** Lists a chain's rules with counters; `""` if there is no such chain. */
  async #listChain(
    program: string,
    { table, chain }: { readonly table: Table; readonly chain: string },
  ): Promise<string> {
    const wait = ["-w", `${LOCK_WAIT_SECONDS}`];
    const { code, stdout } = await this.#run([program, ...wait, "-t", table, "-v", "-S", chain]);
    return code === 0 ? stdout : "";
  }

  /**
   * Reads the kernel's rules of one family.
   * @throws {ApplyError} if they cannot be read
   */
  async saved(family: Family): Promise<Saved> {
    return atOnce(parseSaved(await this.#save(family)));
  }

  async #save(family: Family, ...options: readonly string[]): Promise<string> {
    const program = programName(family, "-save", this.#iptables.backend);
    const result = await this.#run([program, ...options]);
    if (result.code !== 0) throw failureOf(program, result);
    return result.stdout;
  }

  /** Replaces all of signpost's rules and keeps their counts in `packets`. @returns the length written */
  async #replace(input: FamilyInput): Promise<number> {
    const saved = await this.#save(input.family, "-c");
    const held = await this.#inTurns(parseSaved(saved));
    const bytes = await this.#restore(fitToSaved(input, held));
    this.#packets.replaced(input.family, saved);
    return bytes;
  }

  /**
   * Returns the tables without a canary chain, for example `iptables nat`. Another program has flushed them, and a
   * full script must follow. Locked tables are checked next time.
   * @throws {ApplyError} if the programs are missing
   */
  async missingCanaries(): Promise<readonly string[]> {
    const missing: string[] = [];
    for (const family of this.#iptables.families) {
      const program = programName(family, "", this.#iptables.backend);
      const wait = ["-w", `${LOCK_WAIT_SECONDS}`];
      for (const table of TABLES) {
        const result = await this.#run([program, ...wait, "-t", table, "-S", CANARY_CHAIN]);
        if (result.code === 0 || failureOf(program, result).failure === "busy") continue;
        missing.push(`${programName(family, "")} ${table}`);
      }
    }
    return missing;
  }

  /** @returns the length written */
  async #restore(input: FamilyInput): Promise<number> {
    const text = await this.#inTurns(renderFamily(input));
    if (text === "") return 0;
    const program = programName(input.family, "-restore", this.#iptables.backend);
    const result = await this.#run([program, "-w", `${LOCK_WAIT_SECONDS}`, "--noflush"], text);
    if (result.code !== 0) throw failureOf(program, result, text);
    return text.length;
  }

  async #inTurns<T>(work: Generator<undefined, T>): Promise<T> {
    const { clock } = this.#options;
    return clock ? await new Turns(clock).run(work) : atOnce(work);
  }

  async #run(argv: readonly [string, ...string[]], stdin?: string): Promise<ProcessResult> {
    try {
      return await this.#options.runner.run(argv, stdin);
    } catch (error) {
      if (error instanceof ProgramMissingError) throw missingProgram(argv[0], error);
      return rethrowAsApplyError(error);
    }
  }
}
