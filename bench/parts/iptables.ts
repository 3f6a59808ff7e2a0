/**
 * iptables mode: rules for each Service, and the time that they take, beside a chain for each
 * endpoint as kube-proxy has it.
 *
 * @module
 */
import type { Variant } from "../../lib/backend/iptables/kernel/programs.ts";
import { programName } from "../../lib/backend/iptables/script/names.ts";
import { Daemon, printOnce } from "../daemon.ts";
import { chainPerEndpoint } from "../iptables_chains.ts";
import type { Libc } from "../libc.ts";
import { Stage } from "../stage.ts";
import { median } from "../statistics.ts";
import { Churn } from "./changes.ts";

/** One shape of rules. */
export interface RuleShape {
  readonly rulesPerService: number;
  readonly bytes: number;
  /** Milliseconds of `iptables-restore` alone with all rules, into empty tables. */
  readonly restore: number;
  /**
   * Milliseconds for a Service of which one endpoint changed. Of signpost: its whole sync; of the
   * other shape: `iptables-restore` alone.
   */
  readonly change: number;
}

/** Medians with one backend at one size. */
export interface IptablesResult {
  readonly services: number;
  readonly backend: "nft" | "legacy";
  readonly signpost: RuleShape & { readonly firstSync: number };
  readonly chainPerEndpoint: RuleShape;
}

/** The parts to measure. */
export interface IptablesOptions {
  readonly services: number;
  readonly endpoints: number;
  readonly backend: "nft" | "legacy";
  readonly runs: number;
  readonly changes: number;
}

/** By this chain kubelet tells which backend a node uses (KEP-3178). */
const HINT = "KUBE-IPTABLES-HINT";

/** Without `--noflush`, a table that is named is emptied. */
const EMPTY = ["filter", "nat", "mangle"].map((table) => `*${table}\nCOMMIT\n`).join("");

/** Measures in a namespace of its own. */
export async function measureIptables(
  libc: Libc,
  options: IptablesOptions,
): Promise<IptablesResult> {
  await using stage = await Stage.create(libc, options);
  const kernel = new IptablesKernel(stage, `-${options.backend}`);
  const own = ipv4Input(
    await printOnce({
      namespace: stage.namespace,
      kubeconfig: stage.api.kubeconfig,
      mode: "iptables",
    }),
  );
  const chains = chainPerEndpoint(options);
  const size = (input: string) => ({
    rulesPerService: count(input, /^-A /gm) / options.services,
    bytes: input.length,
  });
  const other = {
    ...size(chains.full),
    restore: await kernel.load(chains.full, { times: options.runs, fresh: true }),
    change: await kernel.load(chains.partial, { times: options.changes, fresh: false }),
  };
  const restore = await kernel.load(own, { times: options.runs, fresh: true });
  return {
    services: options.services,
    backend: options.backend,
    signpost: { ...size(own), restore, ...await measureDaemon(stage, kernel, options.changes) },
    chainPerEndpoint: other,
  };
}

/** The iptables of the stage, with one backend. */
class IptablesKernel {
  constructor(private readonly stage: Stage, private readonly backend: Variant) {}

  async empty(): Promise<void> {
    await this.stage.run([programName(4, "-restore", this.backend)], EMPTY);
  }

  /** Milliseconds to load it, into empty tables (`fresh`) or beside what is there; it stays there. */
  async load(
    input: string,
    { times, fresh }: { readonly times: number; readonly fresh: boolean },
  ): Promise<number> {
    const taken: number[] = [];
    for (let i = 0; i < times; i++) {
      if (fresh) await this.empty();
      taken.push(await this.#restore(input));
    }
    return median(taken);
  }

  /** Has signpost take this backend. */
  async leaveHint(): Promise<void> {
    for (const family of [4, 6] as const) {
      const iptables = programName(family, "", this.backend);
      await this.stage.run([iptables, "-w", "5", "-t", "mangle", "-N", HINT]);
    }
  }

  async #restore(input: string): Promise<number> {
    const restore = programName(4, "-restore", this.backend);
    const { milliseconds } = await this.stage.run([restore, "-w", "5", "--noflush"], input);
    return milliseconds;
  }
}

async function measureDaemon(
  stage: Stage,
  kernel: IptablesKernel,
  changes: number,
): Promise<{ readonly firstSync: number; readonly change: number }> {
  await kernel.empty();
  await kernel.leaveHint();
  const { namespace, api: { kubeconfig } } = stage;
  await using daemon = Daemon.start({ namespace, kubeconfig, mode: "iptables" });
  const seconds = (line: { readonly [field: string]: unknown }) => Number(line["seconds"]);
  const firstSync = seconds(await daemon.firstSync()) * 1000;
  const churn = new Churn(stage.options);
  const times: number[] = [];
  for (let i = 0; i < changes; i++) {
    const from = daemon.lines.length;
    await stage.api.put(churn.next().slice);
    const synced = await daemon.line(
      ({ msg, kind }) => msg === "synced" && kind === "partial",
      from,
    );
    times.push(seconds(synced) * 1000);
  }
  return { firstSync, change: median(times) };
}

/** The part of what `--once` prints that `iptables-restore` is given. */
function ipv4Input(text: string): string {
  return text.slice(0, text.indexOf("# ip6tables-restore"));
}

function count(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}
