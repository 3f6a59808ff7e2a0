/** Keeps the list of node findings, and logs when a finding begins and ends. */
import type { NodeFacts, SystemFacts } from "../../findings/facts.ts";
import { findAll, findingKey } from "../../findings/findings.ts";
import type { Finding } from "../../model/status.ts";
import { BoundedMap } from "../../model/values/bounded.ts";
import { messageOf } from "../../model/values/errors.ts";
import { Turns } from "../../model/ports/in_turns.ts";
import type { Clock, Logger, ProcessRunner } from "../../model/ports/ports.ts";
import type { AutoResetEvent } from "../../model/values/timing.ts";
import type { BackendOptions } from "../../backend/backend.ts";
import { couldUseFirst } from "../../backend/choose.ts";
import { BRIDGE_FILTER, FORWARDING } from "../../findings/system.ts";
import { runIfInstalled } from "../../model/kernel/dataplane.ts";
import { type Family, parseCidr } from "../../model/values/address.ts";
import { readSysctl, ROUTE_LOCALNET } from "../../backend/sysctl.ts";

interface NodeFindingsOptions {
  /** Gathers the facts. Runs programs if `isFull`. */
  readonly gather: (isFull: boolean) => Promise<NodeFacts>;
  readonly appeared: (finding: Finding) => void;
  /** Compares our rules with the kernel's, if the mode does not report each change. */
  readonly compareRules: () => Promise<void>;
  /** Set if objects or other facts have changed. */
  readonly changed: AutoResetEvent;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Milliseconds between two looks at the whole node. */
const PERIOD = 60_000;
/** Milliseconds between two looks at the objects, at least. */
const PAUSE = 1_000;
/** The same, as multiples of the last look's time. A full look mostly waits for programs. */
const TIMES_AS_LONG = { full: 20, objects: 200 };
/** Milliseconds after which a lasting error is logged again. */
const REPEAT = 600_000;

/** Milliseconds between two looks at a firewall that drops: while it loads its rules, it may drop everything. */
const RELOAD = 3_000;

export class NodeFindings {
  /** The last failure that was logged. */
  #failure = "";
  /** The monotonic time at which each text of a finding was last logged. */
  readonly #logged = new BoundedMap<string, number>(1024);
  #list: readonly Finding[] = [];
  /** Resolves after all looks so far. One look runs at a time, so an older list never replaces a newer one. */
  #looks: Promise<void> = Promise.resolve();
  #requested: Promise<void> | undefined;
  /** The monotonic time of the next look at the whole node. */
  #next = -Infinity;

  constructor(private readonly options: NodeFindingsOptions) {}

  /** Returns the findings of the last look, errors first. */
  get list(): readonly Finding[] {
    return this.#list;
  }

  /** Asks for a look at the whole node, because a sync has failed or followed a failure. */
  suspected(): void {
    this.#next = -Infinity;
    this.options.changed.set();
  }

  /** Looks at the whole node for a client. Clients that ask before this look begins share it. */
  refresh(): Promise<void> {
    return this.#requested ??= this.#inTurn(() => {
      this.#requested = undefined;
      return this.#look(true, this.options.compareRules);
    });
  }

  /** Looks at once, each minute, and when objects change. Runs programs after the first sync only. */
  async follow(firstSync: Promise<void>, signal: AbortSignal): Promise<void> {
    const { changed, clock } = this.options;
    let isSynced = false;
    void firstSync.then(() => {
      isSynced = true;
      this.suspected();
    });
    await this.#inTurn(() => this.#look(false));
    while (!signal.aborted) {
      const began = clock.monotonic();
      const isFull = isSynced && began >= this.#next;
      if (isFull) this.#next = began + PERIOD;
      await this.#inTurn(() => this.#look(isFull));
      const times = TIMES_AS_LONG[isFull ? "full" : "objects"];
      await clock.sleep(Math.max(PAUSE, times * (clock.monotonic() - began)), signal);
      const left = isSynced ? Math.max(0, this.#next - clock.monotonic()) : PERIOD;
      await changed.wait(left, signal);
    }
  }

  #inTurn(look: () => Promise<void>): Promise<void> {
    return this.#looks = this.#looks.then(look);
  }

  /** Replaces the list. After a failure the last list stays: rules do not depend on it. */
  async #look(isFull: boolean, before = () => Promise.resolve()): Promise<void> {
    const { gather, clock, logger } = this.options;
    const work = async () => await new Turns(clock).run(findAll(await gather(isFull)));
    try {
      await before();
      let found = await work();
      if (isFull && found.some((each) => this.#isNewFirewall(each))) {
        const first = new Set(found.map(findingKey));
        await clock.sleep(RELOAD);
        const later = (await work()).filter((each) =>
          first.has(findingKey(each)) || !this.#isNewFirewall(each)
        );
        // Rules that the firewall removed are repaired by now.
        found = [...found.filter(isRepaired), ...later.filter((each) => !isRepaired(each))];
      }
      this.#replace(found);
    } catch (error) {
      const reason = messageOf(error);
      if (reason === this.#failure) return;
      this.#failure = reason;
      logger.error("cannot look for findings of this node; the last list stays", { error: reason });
    }
  }

  #isNewFirewall(found: Finding): boolean {
    return found.id.startsWith("firewall-") &&
      !this.#list.some((each) => findingKey(each) === findingKey(found));
  }

  #replace(found: readonly Finding[]): void {
    const { appeared, clock, logger } = this.options;
    const now = clock.monotonic();
    const [before, after] = [this.#list, found].map((list) => new Set(list.map(findingKey)));
    for (const each of found) {
      const isNew = !before?.has(findingKey(each));
      if (isNew) appeared(each);
      const text = `${findingKey(each)} ${each.what}`;
      const isDue = each.severity === "error" &&
        now - (this.#logged.get(text) ?? -Infinity) >= REPEAT;
      if (!isNew && !isDue) continue;
      logFinding(logger, each);
      this.#logged.set(text, now);
    }
    for (const each of this.#list) {
      if (after?.has(findingKey(each))) continue;
      logger.info("a finding is gone", { finding: each.id, where: each.where });
    }
    this.#list = found;
  }
}

/** Returns true for findings that signpost repairs itself. */
function isRepaired({ id }: Finding): boolean {
  return id === "rules-changed";
}

export function logFinding(logger: Logger, { id, severity, what, where, remedy }: Finding): void {
  logger[severity === "warning" ? "warn" : severity](what, { finding: id, where, remedy });
}

/** Reads the facts of programs and settings. @param before the last facts; some never change */
export async function readSystem(
  options: BackendOptions,
  before?: SystemFacts,
): Promise<SystemFacts> {
  const { runner } = options.runtime;
  const isOn = async (names: Readonly<Record<Family, string>>) => {
    const read = (name: string) => readSysctl(runner, name).catch(() => "0");
    const [four, six] = await Promise.all([read(names[4]), read(names[6])]);
    return { 4: four !== "0", 6: six !== "0" };
  };
  const [couldUseNftables, conntrack, routeLocalnet, forwards, filtersBridges, bridges] =
    await Promise.all([
      before?.couldUseNftables ?? couldUseFirst(options),
      readConntrack(runner),
      readSysctl(runner, ROUTE_LOCALNET).catch(() => undefined),
      isOn(FORWARDING),
      isOn(BRIDGE_FILTER),
      readBridges(runner).catch(() => undefined),
    ]);
  // Without the module br_netfilter its setting cannot be read. If `route_localnet` can be read, sysctl works.
  const settings = routeLocalnet !== undefined && { forwards, filtersBridges };
  return { couldUseNftables, conntrack, routeLocalnet, bridges, ...settings };
}

/** Returns the ranges of bridges, such as `10.244.0.0/24`. */
async function readBridges(runner: ProcessRunner): Promise<readonly string[]> {
  const result = await runIfInstalled(runner, ["ip", "-o", "address", "show", "type", "bridge"]);
  const found = (result?.stdout ?? "").matchAll(/ inet6? ([0-9a-f.:]+\/\d+) .*scope global/g);
  return [...found].flatMap(([, range = ""]) => parseCidr(range) ?? []);
}

async function readConntrack(runner: ProcessRunner): Promise<SystemFacts["conntrack"]> {
  const read = async (name: string) =>
    Number(await readSysctl(runner, `net.netfilter.nf_conntrack_${name}`));
  try {
    const [entries, max] = await Promise.all([read("count"), read("max")]);
    // 0 means no limit.
    return max > 0 ? { entries, max } : undefined;
  } catch {
    return undefined;
  }
}
