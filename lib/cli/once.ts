/** `signpost --once`: prints the daemon's script for the present state, and changes nothing. */
import { conflictLines } from "../policy/service_claims.ts";
import { likelyBackend } from "../backend/choose.ts";
import { FAMILIES } from "../model/values/address.ts";
import { unsupportedLine } from "../model/kernel/traits.ts";
import { readState, warnOfObjects, workOut } from "./objects.ts";
import type { Backend } from "../backend/backend.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import type { State } from "../policy/state.ts";
import { logFinding } from "../daemon/reports/node_findings.ts";
import { checkMode } from "../findings/mode.ts";
import { checkNodeAddress } from "../findings/addresses.ts";
import type { QueryContext } from "./context.ts";

/** Waits for the full state, and prints it. @throws {FatalError} if the objects cannot be read */
export async function once(
  options: QueryContext & { readonly output: "script" | "json" },
): Promise<void> {
  const { configuration, output, nodeName, runtime, logger } = options;
  const backend = likelyBackend(options);
  const state = await readState({
    ...options,
    backend,
    // The script may be for another machine.
    ipFamilies: FAMILIES,
    refusedFeatures: new Map(),
  });
  const { cache, desired, conflicts } = state;
  const facts = {
    nodeName,
    configuration,
    traits: backend.traits,
    interfaceAddresses: cache.node?.addresses ?? [],
    objects: { node: cache.node, desired },
  };
  for (const each of [...checkMode(facts), ...checkNodeAddress(facts)]) logFinding(logger, each);
  warnOfObjects(state, logger);
  for (const line of conflictLines(conflicts)) logger.warn(line);
  for (const each of desired.unsupported()) logger.warn(unsupportedLine(each));
  for (const line of await refusedHere(state, { ...options, backend })) {
    logger.warn(`this machine would refuse a part of the script: ${line}`);
  }
  const services = Object.fromEntries([...desired.services].sort(([a], [b]) => a < b ? -1 : 1));
  const text = output === "json"
    ? `${JSON.stringify({ node: desired.node, services }, undefined, 2)}\n`
    : backend.dataplane.full(desired).text;
  await runtime.print(text);
}

/** Returns a line for each part of the state that nft or the kernel refuses here; empty if it cannot be asked. */
async function refusedHere(
  { cache, desired }: State,
  options: QueryContext & { readonly backend: Pick<Backend, "traits" | "probe"> },
): Promise<string[]> {
  const probed = await options.backend.probe().catch((error) => {
    if (error instanceof ApplyError) return undefined;
    throw error;
  });
  if (!probed || probed.refusedFeatures.size === 0) return [];
  const { refusedFeatures, findings } = probed;
  const here = await workOut(cache, { ...options, ipFamilies: FAMILIES, refusedFeatures });
  const known = new Set(desired.unsupported().map(unsupportedLine));
  const lines = here.desired.unsupported().map(unsupportedLine).filter((line) => !known.has(line));
  return [...findings.map(({ what }) => what), ...lines];
}
