/**
 * Deletes stale UDP entries from the kernel's connection tracking after syncs.
 *
 * A UDP flow keeps the endpoint of its first datagram while its conntrack entry lives, and every datagram
 * prolongs that life. A stale entry loses all datagrams (kube-proxy: `pkg/proxy/conntrack/cleanup.go`).
 */
import {
  changesFixedRules,
  type DesiredNode,
  type DesiredServicePort,
  type DesiredState,
  type ServiceChange,
  servingEndpoints,
  type StateChange,
} from "../model/kernel/desired.ts";
import type { Script } from "../model/kernel/dataplane.ts";
import { Turns } from "../model/ports/in_turns.ts";
import {
  type Clock,
  type Logger,
  type ProcessRunner,
  ProgramMissingError,
} from "../model/ports/ports.ts";
import { FAMILIES, type Family } from "../model/values/address.ts";
import {
  type ConntrackEntry,
  ConntrackError,
  ConntrackTool,
  type Deletion,
  deletionsOf,
  type ListFilter,
} from "./tool.ts";
import { frontendKey, hostPort } from "../model/cluster/names.ts";
import { type Frontend, frontendsOf, type Match } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";

/** The state and the ports of the cleaner. */
interface ConntrackCleanerOptions {
  /** The present desired state. */
  readonly state: DesiredState;
  readonly runtime: {
    readonly runner: ProcessRunner;
    readonly clock: Clock;
    /** The addresses of all network interfaces of the node, canonical. */
    addresses(): readonly string[];
  };
  readonly metrics: {
    /** A clean-up of one family is over. */
    conntrackReconciled(family: Family, result: { deleted: number; seconds: number }): void;
  };
  readonly logger: Logger;
  /** Ends clean-ups. */
  readonly signal: AbortSignal;
}

/** Services that are looked at in one turn. */
const SERVICES = 100;
/** Deletions that are handed over together. Each walks all of the kernel's table. */
const DELETIONS = 32;
/** Milliseconds after which a clean-up stops and leaves the rest for later. */
const BUDGET = 2_000;
/** Milliseconds between two clean-ups. */
const PAUSE = 1_000;
/** The same after one that failed or was cut short. */
const RETRY_PAUSE = 10_000;

/** Frontends of one family whose flows may be stale, and the Services of both families that have or had them. */
interface Suspected {
  readonly suspects: Suspects;
  readonly services: ReadonlySet<string>;
}

/**
 * Finds and deletes stale UDP entries (see `staleEntries`) while syncs go on: a `conntrack` that hangs
 * delays no rule. After a failure there is a warning, and a later clean-up tries again.
 */
export class ConntrackCleaner {
  readonly #options: ConntrackCleanerOptions;
  readonly #tool: ConntrackTool;
  #suspects = noSuspects();
  /** The Services that have or had a suspect, as `namespace/name`. */
  #services = new Set<string>();
  /** The kernel has what the last sync wanted. */
  #isSynced = false;
  #isRunning = false;
  #isMissing = false;
  #lastWarning = "";

  constructor(options: ConntrackCleanerOptions) {
    this.#options = options;
    this.#tool = new ConntrackTool(options.runtime.runner);
  }

  /** Notes what a sync may have made stale, and starts a clean-up if it succeeded. @yields when other work can run */
  *following(
    { change, applied, isFull }: {
      readonly change: StateChange;
      readonly applied: Script["kind"] | undefined;
      readonly isFull: boolean;
    },
  ): Generator<undefined, void> {
    if (this.#isMissing) return;
    this.#isSynced = false;
    // Other addresses of the node may take node ports where the fixed rules change.
    const isAll = isFull || changesFixedRules(change);
    const present = isAll ? this.#options.state.services : [];
    let count = 0;
    for (const services of [change.services, addedBy(present)]) {
      for (const [service, each] of services) {
        if (++count % SERVICES === 0) yield;
        if (!concernsUdp(each)) continue;
        if (this.#services.size < MOST_SUSPECTS) this.#services.add(service);
        for (const family of FAMILIES) {
          addSuspects(this.#suspects[family], suspectsOf(each, family));
        }
      }
    }
    this.#isSynced = applied !== undefined;
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { runtime: { clock }, signal } = this.#options;
    this.#isRunning = true;
    while (this.#isSynced && !signal.aborted && FAMILIES.some((f) => this.#suspects[f].size > 0)) {
      const isDone = await this.#clean();
      await clock.sleep(isDone ? PAUSE : RETRY_PAUSE, signal);
    }
    this.#isRunning = false;
  }

  /** Cleans both families. @returns true if nothing is left */
  async #clean(): Promise<boolean> {
    const [suspects, services] = [this.#suspects, this.#services];
    this.#suspects = noSuspects();
    this.#services = new Set();
    const deadline = this.#now() + BUDGET;
    let isDone = true;
    for (const family of FAMILIES) {
      try {
        await this.#cleanFamily(family, { suspects: suspects[family], services, deadline });
      } catch (error) {
        if (error instanceof ProgramMissingError) return this.#giveUp();
        if (!(error instanceof ConntrackError)) throw error;
        this.#warn(`${error.message}; trying again later`);
        addSuspects(this.#suspects[family], suspects[family]);
        this.#services = this.#services.union(services);
        isDone = false;
      }
    }
    if (isDone) this.#lastWarning = "";
    return isDone;
  }

  async #cleanFamily(
    family: Family,
    { deadline, ...suspected }: Suspected & { readonly deadline: number },
  ): Promise<void> {
    if (suspected.suspects.size === 0) return;
    const { metrics, logger } = this.#options;
    const started = this.#now();
    const deletions = await this.#find(family, suspected);
    let [deleted, done] = [0, 0];
    // The first batch goes however long the listing took, so that something is achieved each time.
    while (done < deletions.length && (done === 0 || this.#now() < deadline)) {
      deleted += await this.#tool.delete(deletions.slice(done, done + DELETIONS));
      done += DELETIONS;
    }
    const seconds = (this.#now() - started) / 1000;
    metrics.conntrackReconciled(family, { deleted, seconds });
    if (deleted > 0) {
      logger.debug(2, "stale UDP conntrack entries deleted", { family, deleted, seconds });
    }
    const left = deletions.length - done;
    if (left <= 0) return;
    throw new ConntrackError(
      `stale IPv${family} UDP conntrack entries take long to delete, ${left} deletions are left`,
    );
  }

  async #find(family: Family, { suspects, services }: Suspected): Promise<Deletion[]> {
    const { state, runtime } = this.#options;
    const listings: Iterable<ConntrackEntry>[] = [];
    for (const filter of listFilters(suspects)) {
      listings.push(await this.#tool.list(family, filter));
    }
    // Gathered after the listing: a flow may lead to an endpoint that came meanwhile.
    const isAll = services.size >= MOST_SUSPECTS || haveNodePort(suspects);
    const compared = isAll
      ? state.services.values()
      : services.values().map((service) => state.services.get(service) ?? []);
    const localAddresses = new Set(runtime.addresses());
    const gathering = gatheringPresent(compared, { family, node: state.node, localAddresses });
    const present = await new Turns(runtime.clock).run(gathering);
    return deletionsOf(listings.flatMap((each) => [...staleEntries(each, { suspects, present })]));
  }

  #giveUp(): true {
    this.#isMissing = true;
    this.#suspects = noSuspects();
    this.#warn(
      "stale UDP conntrack entries are not deleted, clients of changed Services may hang: " +
        "the program conntrack cannot be run; install conntrack-tools and restart",
    );
    return true;
  }

  #warn(message: string): void {
    if (message !== this.#lastWarning) this.#options.logger.warn(message);
    this.#lastWarning = message;
  }

  #now(): number {
    return this.#options.runtime.clock.monotonic();
  }
}

/** Gives each Service as if it were new: all of its flows are looked at. */
function* addedBy(
  services: Iterable<readonly [string, readonly DesiredServicePort[]]>,
): Generator<readonly [string, ServiceChange]> {
  for (const [service, after] of services) yield [service, { before: [], after }];
}

function noSuspects(): Record<Family, Suspects> {
  return { 4: new Map(), 6: new Map() };
}

/** A frontend whose flows may be stale. */
interface Suspect extends Pick<Frontend, "address" | "port"> {
  /** Endpoints that it had, as `address:port`: flows to them are stale if the frontend is gone. */
  readonly former: ReadonlySet<string>;
}

/** Frontends of one family whose flows may be stale, by `frontendKey`. */
export type Suspects = Map<string, Suspect>;

/** Frontends, and Services, that are remembered. Of more, all entries are listed, and flows to deleted frontends stay. */
const MOST_SUSPECTS = 10_000;

/** Endpoints of a frontend to which those of later changes are added, while conntrack fails. */
const MOST_FORMER = 1_000;

/** Adds frontends whose flows may be stale. */
export function addSuspects(suspects: Suspects, more: Iterable<readonly [string, Suspect]>): void {
  for (const [key, suspect] of more) {
    const known = suspects.get(key);
    if (known && known.former.size < MOST_FORMER) {
      suspects.set(key, { ...known, former: known.former.union(suspect.former) });
    } else if (!known && suspects.size < MOST_SUSPECTS) {
      suspects.set(key, suspect);
    }
  }
}

/**
 * Returns the frontends whose flows a change of a Service may have made stale: those that lost an endpoint, are new,
 * got their first endpoint, or are gone. New endpoints beside old ones make nothing stale.
 */
export function* suspectsOf(
  { before, after }: ServiceChange,
  family: Family,
): Generator<readonly [string, Suspect]> {
  const former = new Map(udpFrontends(before, family));
  const present = new Map(udpFrontends(after, family));
  for (const [key, { frontend: { address, port } }] of new Map([...former, ...present])) {
    const [old, now] = [former.get(key), present.get(key)];
    const had = old ? endpointsOf(old.servicePort) : NONE;
    if (!old || losesFlows(had, now)) yield [key, { address, port, former: had }];
  }
}

/** Returns true if a change of a Service can make flows stale. */
function concernsUdp({ before, after }: ServiceChange): boolean {
  return before !== after && (before.some(isUdp) || after.some(isUdp));
}

function isUdp({ protocol }: DesiredServicePort): boolean {
  return protocol === "udp";
}

const NONE: ReadonlySet<string> = new Set();

function losesFlows(had: ReadonlySet<string>, now: Match | undefined): boolean {
  if (!now) return had.size > 0;
  const has = endpointsOf(now.servicePort);
  return !had.isSubsetOf(has) || had.size === 0 && has.size > 0;
}

/** Returns `address:port` of every endpoint that a flow may stay on. */
function endpointsOf(port: DesiredServicePort): ReadonlySet<string> {
  return new Set(servingEndpoints(port).map((each) => hostPort(each.address, each.port)));
}

function* udpFrontends(
  ports: readonly DesiredServicePort[],
  family: Family,
): Generator<readonly [string, Match]> {
  for (const servicePort of ports) {
    if (!isUdp(servicePort) || servicePort.family !== family) continue;
    for (const frontend of frontendsOf(servicePort)) {
      yield [frontendKey({ ...frontend, protocol: "udp" }), { servicePort, frontend }];
    }
  }
}

/** The state that flows are compared with. */
interface Present {
  readonly node: DesiredNode;
  /** All addresses of the node's interfaces, canonical. */
  readonly localAddresses: ReadonlySet<string>;
  /** The service ports of UDP frontends of a family, by `frontendKey`: of suspects, at least. */
  readonly servicePorts: ReadonlyMap<string, DesiredServicePort>;
}

/** Returns true if one of them is a node port. A virtual IP on the node's address goes before it. */
function haveNodePort(suspects: Suspects): boolean {
  return suspects.values().some(({ address }) => address === undefined);
}

/** Gathers what the flows of a family are compared with. @yields when other work can run */
export function* gatheringPresent(
  services: Iterable<readonly DesiredServicePort[]>,
  { family, ...rest }: Omit<Present, "servicePorts"> & { readonly family: Family },
): Generator<undefined, Present> {
  const servicePorts = new Map<string, DesiredServicePort>();
  let count = 0;
  for (const ports of services) {
    if (++count % SERVICES === 0) yield;
    if (!ports.some(isUdp)) continue;
    for (const [key, { servicePort }] of udpFrontends(ports, family)) {
      servicePorts.set(key, servicePort);
    }
  }
  return { ...rest, servicePorts };
}

/**
 * Returns the entries that are stale.
 *
 * - The flow goes to a virtual IP and its port, or to a node port on one of the node's own addresses that take node
 *   ports. A port alone proves nothing: pods talk to the same port of hosts elsewhere.
 * - The frontend is present and its answers do not come from one of its endpoints, or it is gone
 *   and its answers come from one of its former endpoints. A flow to a gone frontend that was not
 *   translated, or that another program translated, is not ours.
 * - A flow in a conntrack zone of its own that was not translated is left alone: Open vSwitch and
 *   others track a packet once before and once after its translation.
 */
export function* staleEntries(
  entries: Iterable<ConntrackEntry>,
  { suspects, present }: {
    readonly suspects: ReadonlyMap<string, Suspect>;
    readonly present: Present;
  },
): Generator<ConntrackEntry> {
  const endpoints = new Map<DesiredServicePort, ReadonlySet<string>>();
  for (const entry of entries) {
    const { protocol, original, reply, zoned } = entry;
    if (protocol !== "udp") continue;
    const source = hostPort(reply.src, reply.sport);
    const isTranslated = source !== hostPort(original.dst, original.dport);
    if (!isTranslated && zoned) continue;
    const key = destinationKey(entry, { suspects, present });
    const servicePort = present.servicePorts.get(key);
    if (servicePort) {
      const serving = endpoints.get(servicePort) ?? endpointsOf(servicePort);
      endpoints.set(servicePort, serving);
      if (!serving.has(source)) yield entry;
    } else if (isTranslated && suspects.get(key)?.former.has(source)) {
      yield entry;
    }
  }
}

/** Returns the key of the virtual IP that a flow goes to, or of the node port, if its destination can be one. */
function destinationKey(
  { original: { dst, dport } }: ConntrackEntry,
  { suspects, present }: {
    readonly suspects: ReadonlyMap<string, Suspect>;
    readonly present: Present;
  },
): string {
  const { node, localAddresses, servicePorts } = present;
  const vip = frontendKey({ address: dst, protocol: "udp", port: dport });
  const nodePort = frontendKey({ address: undefined, protocol: "udp", port: dport });
  const isNodePort = !servicePorts.has(vip) &&
    (servicePorts.has(nodePort) || suspects.has(nodePort)) &&
    takesNodePorts(dst, { node, isOwn: localAddresses.has(dst) });
  return isNodePort ? nodePort : vip;
}

/** Each listing walks all of the kernel's table: from this many ports on, one without a filter is cheaper. */
const MAX_LISTINGS = 3;

/** Returns the listings that show every entry to the given frontends, each as narrow as the tool allows. */
export function listFilters(suspects: ReadonlyMap<string, Suspect>): ListFilter[] {
  const byPort = Map.groupBy(suspects.values(), ({ port }) => port);
  if (suspects.size === MOST_SUSPECTS || byPort.size > MAX_LISTINGS) return [{}];
  return [...byPort].map(([port, [first, ...others]]) => {
    const { address } = first ?? {};
    const isOnly = others.every((other) => other.address === address);
    return isOnly && address !== undefined ? { address, port } : { port };
  });
}
