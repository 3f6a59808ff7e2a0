/**
 * `signpost verify`: the desired state against the kernel.
 *
 * @module
 */
import type { Comparison } from "../../backend/backend.ts";
import type { CommandOf } from "../../config/command.ts";
import { ApplyError } from "../../model/kernel/dataplane.ts";
import {
  type HeldBackPorts,
  type ServiceDifference,
  type Verification,
  VERIFY_VERSION,
} from "../../model/kernel/differences.ts";
import { FatalError } from "../../model/values/errors.ts";
import { renderReport } from "../output.ts";
import { type NodeState, type ObjectsOptions, readNodeState } from "../objects.ts";
import type { QueryContext } from "../query.ts";
import { askHeldBack } from "../../daemon/objects/client.ts";
import { ownAddresses } from "../../daemon/objects/own_ports.ts";
import { missingListeners, wantedListeners } from "../../verify/listeners.ts";
import { fix } from "./fix.ts";
import { LONGEST_PAUSE as LONGEST_ADAPTIVE } from "../../sync/state.ts";
import { verificationTable } from "./table.ts";

/** Milliseconds that the daemon gets for a change besides the min sync period, and at most in all. */
const GRACE = 500;
const LONGEST_PAUSE = 10_000;

/**
 * Compares, has it fixed if asked, and prints.
 *
 * @returns 0 where the kernel holds what it should (at last), 1 where it does not
 * @throws {FatalError} where it cannot be told
 */
export async function verify(
  query: CommandOf<"verify">,
  context: QueryContext,
): Promise<number> {
  const { report, parts } = await verification(query, context).catch((error) => {
    throw error instanceof ApplyError ? new FatalError(error.message, { cause: error }) : error;
  });
  const { runtime } = context;
  await runtime.print(renderReport(report, {
    output: query.output,
    runtime,
    table: (shown, paint) => verificationTable(shown, { paint, parts }),
  }));
  const isFixed = report.fix?.result === "fixed" && report.otherProxies.length === 0;
  return report.same || isFixed ? 0 : 1;
}

/**
 * Compares, and has it fixed if asked.
 *
 * @throws {ApplyError | FatalError} if objects or kernel cannot be read
 */
export async function verification(
  query: { readonly fix: boolean; readonly timeout: number },
  context: QueryContext,
): Promise<{ readonly report: Verification; readonly parts: string }> {
  const { configuration, nodeName, runtime, signal } = context;
  const verifier = new Verifier({ ...context, ...query, isHere: true });
  const { known: { state, backend, origin }, compared, differences, inFlight, heldBack } =
    await verifier.look();
  const otherProxies = await backend.foreignRules.findProxy();
  const isSame = differences.length === 0;
  const report: Verification = {
    verifyVersion: VERIFY_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    same: isSame && otherProxies.length === 0,
    services: state.desired.services.size,
    servicePorts: [...state.desired.services.values()].reduce((sum, { length }) => sum + length, 0),
    compared,
    differences,
    inFlight,
    heldBack: heldBack.map(({ service, reason }) => ({ service, reason })),
    otherProxies,
    fix: !query.fix ? null : isSame ? UNNEEDED : await fix({
      socket: configuration.signpost.socket,
      clock: runtime.clock,
      isSame: async () => (await verifier.look()).differences.length === 0,
      signal,
    }),
    objects: origin,
  };
  return { report, parts: backend.traits.parts };
}

const UNNEEDED = { result: "unneeded", message: "there is nothing that a sync would fix" } as const;

/** The kernel beside the desired state. */
interface Look extends Comparison {
  readonly known: NodeState;
  readonly inFlight: readonly ServiceDifference[];
  readonly heldBack: readonly HeldBackPorts[];
}

/** Looks at objects and kernel. */
class Verifier {
  readonly #context: ObjectsOptions;
  #known: NodeState | undefined;

  constructor(context: ObjectsOptions) {
    this.#context = context;
  }

  /** Looks again a moment later if something differs: objects may have changed meanwhile. */
  async look(): Promise<Look> {
    const first = await this.#lookOnce();
    if (first.differences.length === 0) return first;
    const { configuration, runtime, signal } = this.#context;
    const { traits } = first.known.backend;
    const { minSyncPeriod } = configuration[traits.section];
    const gathering = minSyncPeriod === "adaptive" ? LONGEST_ADAPTIVE : minSyncPeriod;
    const pause = Math.min(gathering + GRACE, LONGEST_PAUSE);
    await runtime.clock.sleep(pause, signal);
    if (signal.aborted) throw new FatalError("interrupted");
    const second = await this.#lookOnce();
    const held = new Map(first.differences.map((each) => [placeOf(each), each.held]));
    const [differences, changing] = partition(
      second.differences,
      (each) => held.get(placeOf(each)) === each.held,
    );
    return { ...second, differences, inFlight: [...changing, ...second.inFlight] };
  }

  async #lookOnce(): Promise<Look> {
    const { configuration, runtime } = this.#context;
    // The standard input can be read but once.
    const readsStdin = this.#known?.origin.from === "manifests" &&
      configuration.signpost.manifests.includes("-");
    const known = readsStdin && this.#known || await this.#read();
    this.#known = known;
    const { state, backend, daemon } = known;
    const heldBack = await askHeldBack(configuration.signpost.socket).catch(() => []);
    const held = heldBack.map(({ service, ports }) => [service, ports] as const);
    const { node, services } = state.desired;
    const desired = { node, services: new Map([...services, ...held]) };
    const { compared, differences } = (await backend.read()).compare(desired);
    const wanted = wantedListeners(desired);
    const missing = wanted.length === 0 ? [] : missingListeners(wanted, await this.#sockets());
    const read = daemon?.interfaceAddresses ?? [];
    return {
      known,
      compared: compared + wanted.length,
      differences: [...differences, ...missing],
      heldBack,
      inFlight: read.length > 0 ? addressesInFlight(read, ownAddresses(runtime)) : [],
    };
  }

  /** Deno lets no program read these files itself. */
  async #sockets(): Promise<string> {
    const { runner } = this.#context.runtime;
    return (await runner.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"])).stdout;
  }

  async #read(): Promise<NodeState> {
    const { logger } = this.#context;
    const known = await readNodeState(this.#context);
    if (!this.#known) {
      const { refused, cache } = known.state;
      for (const refusal of refused) {
        logger.warn("object refused; the daemon may hold its last good state", { ...refusal });
      }
      for (const omission of cache.omissions) {
        logger.warn("a part of the object is left out, the rest of it counts", { ...omission });
      }
    }
    return known;
  }
}

/** Names where a difference is. */
function placeOf({ in: place, key }: ServiceDifference): string {
  return `${place} ${key}`;
}

function partition<T>(list: readonly T[], test: (item: T) => boolean): [T[], T[]] {
  const { yes = [], no = [] } = Object.groupBy(list, (item) => test(item) ? "yes" : "no");
  return [yes, no];
}

/** Lists the addresses that came or went since the daemon read them. */
function addressesInFlight(
  known: readonly string[],
  now: readonly string[],
): readonly ServiceDifference[] {
  const row = { in: "addresses of this node", desired: "", held: "", service: "" } as const;
  return [
    ...now.filter((key) => !known.includes(key)).map((
      key,
    ) => ({ type: "missing", ...row, key } as const)),
    ...known.filter((key) => !now.includes(key)).map((
      key,
    ) => ({ type: "extra", ...row, key } as const)),
  ];
}
