/** Reads the objects once and works out the desired state, for `--once` and queries. */
import { ObjectCache } from "../cache/cache.ts";
import { Desired, type State } from "../policy/state.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Family } from "../model/values/address.ts";
import { type Backend, familiesBut, missingFamilies } from "../backend/backend.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { RefusedFeatures } from "../model/kernel/traits.ts";
import { FatalError, unlessFatal } from "../model/values/errors.ts";
import type { QueryContext } from "./context.ts";
import { OwnPorts } from "../daemon/objects/own_ports.ts";
import { findApiServer, readSource, type SourceOptions } from "../daemon/objects/source.ts";

export interface StateOptions extends QueryContext, Pick<SourceOptions, "inspect"> {
  readonly backend: Pick<Backend, "traits" | "probe">;
  /** Milliseconds to wait for the full state; without it, for ever. */
  readonly timeout?: number;
  /** The families that rules are written for. @default those of this node */
  readonly ipFamilies?: readonly Family[];
  /** True if manifests are meant for this machine, too. @default false */
  readonly isHere?: boolean;
  /** The interface addresses that the running daemon has read. @default those of the interfaces now */
  readonly knownAddresses?: readonly string[] | undefined;
  /** Features that the running daemon knows to be refused. @default the kernel is asked */
  readonly refusedFeatures?: RefusedFeatures | undefined;
}

/** Reads the full state once. @throws {FatalError} if the objects cannot be read, or not in time */
export async function readState(options: StateOptions): Promise<State> {
  return await workOut(await readCache(options), options);
}

export async function workOut(cache: ObjectCache, options: StateOptions): Promise<State> {
  const { backend, configuration, nodeName, runtime } = options;
  const ipFamilies = options.ipFamilies ?? familiesBut(missingFamilies(runtime));
  const isLocal = configuration.signpost.manifests.length > 0;
  // The objects may come from a daemon or a state file; then there need not be a server.
  const api = isLocal ? undefined : await findApiServer(options).catch(unlessFatal);
  const isHere = !isLocal || options.isHere === true;
  const own = new OwnPorts({
    configuration,
    runtime,
    locate: api?.locate,
    isHere,
    knownAddresses: options.knownAddresses,
  });
  await own.look();
  const desired = new Desired({
    configuration,
    traits: backend.traits,
    nodeName,
    ipFamilies,
    ...own.around,
    refusedFeatures: options.refusedFeatures ?? await refusedFeatures(backend),
  });
  const { conflicts, overLimit } = desired.update(cache, cache.takeDirty());
  return {
    cache,
    desired,
    conflicts,
    refused: [...cache.refused, ...overLimit],
    apiServerAddresses: own.serverAddresses,
  };
}

export function warnOfObjects({ refused, cache }: State, logger: Logger): void {
  for (const refusal of refused) logger.warn("object refused", { ...refusal });
  for (const omission of cache.takeOmissions()) {
    logger.warn("a part of the object is left out, the rest of it counts", { ...omission });
  }
}

/** Asks the kernel. If it cannot be asked, for example without root, nothing counts as refused. */
async function refusedFeatures(backend: Pick<Backend, "probe">): Promise<RefusedFeatures> {
  try {
    return (await backend.probe()).refusedFeatures;
  } catch (error) {
    if (error instanceof ApplyError) return new Map();
    throw error;
  }
}

/** Reads all objects once. @throws {FatalError} if they cannot be read, or not in time */
export async function readCache(options: Omit<StateOptions, "backend">): Promise<ObjectCache> {
  const { runtime, timeout, signal } = options;
  const cache = new ObjectCache();
  const done = new AbortController();
  const stop = AbortSignal.any([signal, done.signal]);
  const reading = readSource({ ...options, signal: stop }, {
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
    `the API server has not delivered the full state within ${(timeout ?? 0) / 1000} s`,
  );
}
