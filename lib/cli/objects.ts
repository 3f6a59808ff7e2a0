/** Reads objects from the running daemon, else the cluster, else the state file, and derives the desired state. */
import { type Backend, familiesBut, missingFamilies } from "../backend/backend.ts";
import { usedBackend } from "../backend/choose.ts";
import { ObjectCache } from "../cache/cache.ts";
import { OwnPorts, type PortFacts, portOptions } from "../daemon/objects/own_ports.ts";
import { findApiServer, openSource, type SourceOptions } from "../daemon/objects/source.ts";
import { factsOf } from "../explain/answer.ts";
import type { Known } from "../explain/packet.ts";
import type { NodeFacts } from "../findings/facts.ts";
import { findAll, findingKey } from "../findings/findings.ts";
import type { ProxyMode } from "../model/configuration.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { HeldBackPorts } from "../model/kernel/differences.ts";
import type { RefusedFeatures } from "../model/kernel/traits.ts";
import { atOnce } from "../model/ports/in_turns.ts";
import type { Logger } from "../model/ports/ports.ts";
import {
  bySeverity,
  type Finding,
  isCurrent,
  type ObjectsOrigin,
  type Status,
} from "../model/status.ts";
import type { Family } from "../model/values/address.ts";
import { FatalError, messageOf, unlessFatal } from "../model/values/errors.ts";
import { plain } from "../model/values/text.ts";
import { formatAgo } from "../observe/human.ts";
import { apiServers } from "../policy/node.ts";
import { Desired, type State } from "../policy/state.ts";
import { createDecoder } from "../source/objects/decode.ts";
import type { SavedState } from "../source/saved/format.ts";
import { readStateFile } from "../system/state_file.ts";
import { askInputs, askObjects, askStatus, type StatusOptions } from "./client.ts";
import type { QueryContext } from "./context.ts";

/** `inspect` gets each object of the source, but none of the daemon or the state file. */
interface ReadOptions extends QueryContext, Pick<SourceOptions, "inspect"> {
  /** Milliseconds to wait for the objects. @default for ever */
  readonly timeout?: number;
}

interface WorkOptions extends QueryContext {
  readonly backend: Pick<Backend, "traits" | "probe">;
  /** The IP families of the rules. @default the families of this node */
  readonly ipFamilies?: readonly Family[];
  /** The status of the daemon that gave the objects: it names refused features. @default the kernel is asked */
  readonly givingDaemon?: Status | undefined;
  /** The ports that the daemon keeps for itself. @default this machine is asked */
  readonly ownPorts?: PortFacts | null | undefined;
  /** The features that must not be used. @default the features that the daemon or the kernel refuses */
  readonly refusedFeatures?: RefusedFeatures;
}

/** Reads the full state once. @throws {FatalError} if the objects cannot be read, or not in time */
export async function readState(options: ReadOptions & WorkOptions): Promise<State> {
  return await workOut(await readCache(options), options);
}

/** Reads all objects once. @throws {FatalError} if they cannot be read, or not in time */
async function readCache(options: ReadOptions): Promise<ObjectCache> {
  const { runtime, timeout, signal, logger } = options;
  let failure = "";
  // With a timeout, the reason becomes part of the one error, instead of a warning for each kind.
  const warn: Logger["warn"] = (message, fields = {}) => {
    if (timeout === undefined || fields["error"] === undefined) logger.warn(message, fields);
    else failure = `: ${fields["error"]}`;
  };
  const cache = new ObjectCache();
  const done = new AbortController();
  const stop = AbortSignal.any([signal, done.signal]);
  const source = await openSource({ ...options, logger: { ...logger, warn }, signal: stop });
  const reading = source.run({
    sink: (event) => {
      cache.apply(event);
      if (cache.complete) done.abort();
    },
  });
  const late = timeout === undefined ? [] : [runtime.clock.sleep(timeout, stop)];
  try {
    await Promise.race([reading, ...late]);
  } finally {
    done.abort();
  }
  if (cache.complete) return cache;
  if (signal.aborted) throw new FatalError("interrupted before the full state was there");
  throw new FatalError(
    `the API server has not delivered the full state within ${(timeout ?? 0) / 1000} s${failure}`,
  );
}

export async function workOut(cache: ObjectCache, options: WorkOptions): Promise<State> {
  const { backend, configuration, nodeName, runtime, givingDaemon } = options;
  const { ownPorts = await readOwnPorts(options) } = options;
  const own = portOptions(ownPorts && (() => ownPorts), runtime);
  const desired = new Desired({
    configuration,
    traits: backend.traits,
    nodeName,
    ipFamilies: options.ipFamilies ?? familiesBut(missingFamilies(runtime)),
    ...own,
    refusedFeatures: options.refusedFeatures ??
      (givingDaemon
        ? new Map(givingDaemon.refusedFeatures?.map(({ feature, reason }) => [feature, reason]))
        : await refusedFeatures(backend)),
  });
  cache.takeDirty();
  const all = { services: new Set(cache.services.keys()), node: true };
  const { conflicts, overLimit } = desired.update(cache, all);
  const refused = givingDaemon ? givingDaemon.refused : [...cache.refused, ...overLimit];
  return { cache, desired, conflicts, refused, apiServerAddresses: apiServers(own) };
}

async function readOwnPorts(options: QueryContext): Promise<PortFacts | null> {
  const isLocal = options.configuration.signpost.manifests.length > 0;
  // If the objects come from a daemon or a state file, the API server may be away.
  const api = isLocal ? undefined : await findApiServer(options).catch(unlessFatal);
  const own = new OwnPorts({ ...options, locate: api?.locate });
  await own.look();
  return own.facts;
}

/** Asks the kernel for refused features. Without an answer, as without root, none counts as refused. */
async function refusedFeatures(backend: Pick<Backend, "probe">): Promise<RefusedFeatures> {
  try {
    return (await backend.probe()).refusedFeatures;
  } catch (error) {
    if (error instanceof ApplyError) return new Map();
    throw error;
  }
}

export function warnOfObjects({ refused, cache }: State, logger: Logger): void {
  for (const refusal of refused) logger.warn("object refused", { ...refusal });
  for (const omission of cache.takeOmissions()) {
    logger.warn("left out a part of the object; the rest is used", { ...omission });
  }
}

export interface ObjectsOptions extends ReadOptions {
  readonly timeout: number;
}

export interface NodeState {
  readonly state: State;
  readonly backend: Backend;
  readonly origin: ObjectsOrigin;
  /** `undefined`: no daemon answers, or it runs for another node. */
  readonly daemon: Status | undefined;
  /** Services whose last good rules the daemon keeps. They are part of the state. */
  readonly heldBack: readonly HeldBackPorts[];
}

/** Reads the objects, and derives the state of this node. @throws {FatalError} if they cannot be read in time */
export async function readNodeState(options: ObjectsOptions): Promise<NodeState> {
  const { runtime, configuredBy } = options;
  const [daemon, inputs, objects] = await Promise.all([
    askDaemonOf(options),
    askInputs(options).catch(unlessFatal),
    configuredBy === "daemon" ? askObjects(options, options).catch(unlessFatal) : undefined,
  ]);
  const saved = daemon && objects;
  const mode: ProxyMode = options.configuration.mode || (saved && daemon.mode) || "";
  const given = { ...options, configuration: { ...options.configuration, mode } };
  const backend = await usedBackend(given);
  const { cache, origin } = saved ? stateOf("daemon", saved) : await readSourceOrFile(options);
  printAge(origin, runtime);
  const state = await workOut(cache, {
    ...given,
    backend,
    givingDaemon: saved && daemon,
    ownPorts: saved && inputs?.ownPorts,
  });
  const heldBack = daemon && inputs?.heldBack || [];
  state.desired.hold(heldBack.map(({ service, ports }) => [service, ports]));
  return { state, backend, origin, daemon, heldBack };
}

/** Reads the objects, and gathers the facts for `explain`, `test` and `observe`. */
export async function readKnown(options: ObjectsOptions): Promise<Known> {
  const { configuration, nodeName, runtime } = options;
  const { state, backend, daemon, origin } = await readNodeState(options);
  const nodeFindings = findingsOf({
    nodeName,
    configuration,
    traits: backend.traits,
    interfaceAddresses: runtime.addresses(),
    apiServerAddresses: state.apiServerAddresses,
    objects: { node: state.cache.node, desired: state.desired },
  }, daemon);
  return factsOf({ ...options, state, backend, origin, nodeFindings });
}

type Objects = Pick<NodeState, "origin"> & { readonly cache: ObjectCache };

/** Reads the objects of the API server or the manifests, else of the state file. */
async function readSourceOrFile(options: ObjectsOptions): Promise<Objects> {
  const { configuration, nodeName, runtime, configuredBy, signal } = options;
  const { manifests, stateFile } = configuration.signpost;
  if (configuredBy === "daemon" && manifests.includes("-")) {
    throw new FatalError(
      "the daemon has no objects yet, and reads them from its standard input: set --manifests",
    );
  }
  try {
    const cache = await readCache(options);
    const from = manifests.length > 0 ? "manifests" : "api";
    return { cache, origin: { from, asOf: new Date(runtime.clock.now()).toISOString() } };
  } catch (error) {
    if (!(error instanceof FatalError) || configuredBy === undefined || signal.aborted) throw error;
    const decode = createDecoder();
    const saved = stateFile &&
      await readStateFile(stateFile, { nodeName, decode }).catch((cause) => {
        throw new FatalError(`${error.message}; ${plain(messageOf(cause))}`, { cause });
      });
    if (!saved) throw error;
    runtime.complain(`signpost: ${error.message}`);
    return stateOf("state-file", saved);
  }
}

function stateOf(from: ObjectsOrigin["from"], { events, written }: SavedState): Objects {
  const cache = new ObjectCache();
  for (const event of events) cache.apply(event);
  return { cache, origin: { from, asOf: new Date(written).toISOString() } };
}

/** Prints the age of old objects in one line. */
export function printAge(origin: ObjectsOrigin, runtime: QueryContext["runtime"]): void {
  const { from, asOf } = origin;
  const now = runtime.clock.now();
  if (isCurrent(origin, now)) return;
  const whose = from === "daemon"
    ? "the daemon's objects are as of"
    : "the objects come from the state file, as of";
  runtime.complain(`signpost: ${whose} ${formatAgo(asOf, now)} (${asOf})`);
}

/** Asks the daemon for its status; `undefined`: no daemon answers, or it runs for another node. */
export async function askDaemonOf(
  context: Pick<QueryContext, "configuration" | "nodeName" | "runtime">,
  options?: StatusOptions,
): Promise<Status | undefined> {
  const status = await askStatus(context, options).catch(unlessFatal);
  return status?.node === context.nodeName ? status : undefined;
}

/** Returns the findings on facts, and the daemon's own findings. */
export function findingsOf(facts: NodeFacts, daemon: Status | undefined): Finding[] {
  const all = [...atOnce(findAll(facts)), ...daemon?.findings ?? []];
  const unique = new Map(all.map((each) => [findingKey(each), each]));
  return [...unique.values()].sort(bySeverity);
}
