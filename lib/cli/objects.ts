/**
 * Reads the objects that commands work with: those of the running daemon, else of the cluster, else of the state file.
 */
import type { Backend } from "../backend/backend.ts";
import { usedBackend } from "../backend/choose.ts";
import { ObjectCache } from "../cache/cache.ts";
import { askHeldBack, askObjects, askStatus, type StatusOptions } from "./client.ts";
import { readCache, type StateOptions, workOut } from "./read_state.ts";
import type { ProxyMode } from "../model/configuration.ts";
import type { HeldBackPorts } from "../model/kernel/differences.ts";
import { FatalError, messageOf, unlessFatal } from "../model/values/errors.ts";
import { plain } from "../model/values/text.ts";
import { bySeverity, type Finding, type ObjectsOrigin, type Status } from "../model/status.ts";
import { formatAgo } from "../observe/human.ts";
import type { State } from "../policy/state.ts";
import { createDecoder } from "../source/objects/decode.ts";
import type { SavedState } from "../source/saved/format.ts";
import { readStateFile } from "../system/state_file.ts";
import type { QueryContext } from "./context.ts";
import type { NodeFacts, ObjectFacts } from "../findings/facts.ts";
import { findAll, findingKey } from "../findings/findings.ts";
import { atOnce } from "../model/ports/in_turns.ts";

export interface ObjectsOptions extends QueryContext {
  /** Milliseconds to wait for them. */
  readonly timeout: number;
  /** The Service that the answer is about, as `namespace/name`: the daemon gives no others. */
  readonly service?: string | undefined;
  /** True if manifests are meant for this machine. */
  readonly isHere?: boolean;
  /** Gets each object of the source before it is decoded, but none of the daemon or the state file. */
  readonly inspect?: NonNullable<StateOptions["inspect"]>;
}

export interface NodeState {
  readonly state: State;
  readonly backend: Backend;
  readonly origin: ObjectsOrigin;
  /** `undefined`: none answers, or it runs for another node. */
  readonly daemon: Status | undefined;
  /** Services whose last good rules the daemon keeps. The state has these. */
  readonly heldBack: readonly HeldBackPorts[];
}

/** Milliseconds: older objects are worth a line. */
const OLD = 5_000;

/**
 * Reads the objects and works out the state of this node.
 * @throws {FatalError} if nothing has the objects, or not in time
 */
export async function readNodeState(options: ObjectsOptions): Promise<NodeState> {
  const { configuration, runtime, service, configuredBy } = options;
  const [daemon, kept, objects] = await Promise.all([
    askDaemonOf(options, { service }),
    askHeldBack(options).catch(unlessFatal),
    configuredBy === "daemon" ? askObjects(options, options).catch(unlessFatal) : undefined,
  ]);
  const [heldBack, saved] = daemon ? [kept ?? [], objects] : [[], undefined];
  const mode: ProxyMode = configuration.mode || (saved && daemon?.mode) || "";
  const given = { ...options, configuration: { ...configuration, mode } };
  const backend = await usedBackend(given);
  const { cache, origin } = saved
    ? { cache: cacheOf(saved), origin: originOf("daemon", saved) }
    : await readSourceOrFile(options);
  tellOfAge(origin, runtime);
  const state = await workOut(cache, {
    ...given,
    backend,
    isHere: saved !== undefined || options.isHere === true,
    ...daemon && daemon.interfaceAddresses.length > 0 && {
      knownAddresses: daemon.interfaceAddresses,
    },
    ...saved && {
      refusedFeatures: new Map(
        daemon?.refusedFeatures?.map(({ feature, reason }) => [feature, reason]),
      ),
    },
  });
  state.desired.hold(heldBack.map(({ service, ports }) => [service, ports]));
  const { refused = state.refused } = saved && daemon || {};
  return { state: { ...state, refused }, backend, origin, daemon, heldBack };
}

/** Reads the objects of the API server or the manifests, else of the state file. */
async function readSourceOrFile(
  options: ObjectsOptions,
): Promise<Pick<NodeState, "origin"> & { readonly cache: ObjectCache }> {
  const { configuration: { signpost: { manifests } }, runtime, configuredBy, signal } = options;
  if (configuredBy === "daemon" && manifests.includes("-")) {
    throw new FatalError(
      "the daemon has no objects yet, and reads them from its standard input: name --manifests",
    );
  }
  try {
    const cache = await readCache(options);
    const from = manifests.length > 0 ? "manifests" : "api";
    return { cache, origin: originOf(from, { written: runtime.clock.now() }) };
  } catch (error) {
    if (!(error instanceof FatalError) || configuredBy === undefined || signal.aborted) throw error;
    const file = await readSaved(options, error);
    runtime.complain(`signpost: ${error.message}`);
    return { cache: cacheOf(file), origin: originOf("state-file", file) };
  }
}

/** @throws {FatalError} if there is no state file to stand in for the source that failed */
async function readSaved(
  { configuration, nodeName }: QueryContext,
  failure: FatalError,
): Promise<SavedState> {
  const path = configuration.signpost.stateFile;
  try {
    const saved = path && await readStateFile(path, { nodeName, decode: createDecoder() });
    if (saved) return saved;
  } catch (error) {
    throw new FatalError(`${failure.message}; ${plain(messageOf(error))}`, { cause: error });
  }
  throw failure;
}

function cacheOf({ events }: SavedState): ObjectCache {
  const cache = new ObjectCache();
  for (const event of events) cache.apply(event);
  return cache;
}

function originOf(
  from: ObjectsOrigin["from"],
  { written }: Pick<SavedState, "written">,
): ObjectsOrigin {
  return { from, asOf: new Date(written).toISOString() };
}

/** Says in one line how old objects are that are not of now. */
function tellOfAge(origin: ObjectsOrigin, runtime: QueryContext["runtime"]): void {
  const { from, asOf } = origin;
  const now = runtime.clock.now();
  if (isCurrent(origin, now)) return;
  const whose = from === "daemon"
    ? "the daemon's objects are as of"
    : "the objects are those of the state file, as of";
  runtime.complain(`signpost: ${whose} ${formatAgo(asOf, now)} (${asOf})`);
}

export function isCurrent({ asOf }: ObjectsOrigin, now: number): boolean {
  return now - Date.parse(asOf) < OLD;
}

/** Asks the daemon; `undefined`: none answers, or it runs for another node. */
export async function askDaemonOf(
  context: Pick<QueryContext, "configuration" | "nodeName" | "runtime">,
  wanted: StatusOptions,
): Promise<Status | undefined> {
  const status = await askStatus(context, wanted).catch(unlessFatal);
  return status?.node === context.nodeName ? status : undefined;
}

/** Works findings out from facts, and adds those that only the daemon knows. */
export function findingsOf(facts: NodeFacts, daemon: Status | undefined): Finding[] {
  const all = new Map<string, Finding>();
  for (const each of [...atOnce(findAll(facts)), ...daemon?.findings ?? []]) {
    all.set(findingKey(each), each);
  }
  return [...all.values()].sort(bySeverity);
}

/** Takes from a state what findings are worked out from. */
export function objectFacts({ cache, desired }: Pick<State, "cache" | "desired">): ObjectFacts {
  return { node: cache.node, desired };
}
