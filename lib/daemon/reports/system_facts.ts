/**
 * Asks programs and kernel for the facts of node findings.
 *
 * @module
 */
import type { Backend, BackendOptions } from "../../backend/backend.ts";
import { couldUseFirst } from "../../backend/choose.ts";
import { ROUTE_LOCALNET } from "../../backend/route_localnet.ts";
import { Sysctl } from "../../backend/sysctl.ts";
import type { RulesetFacts, SystemFacts } from "../../findings/facts.ts";

/**
 * Asks. What cannot be read is left out.
 *
 * @param before the last answer: what does not change is not asked again
 */
export async function readSystem(
  options: BackendOptions,
  before?: SystemFacts,
): Promise<SystemFacts> {
  const sysctl = new Sysctl(options.runtime.runner);
  const [couldUseNftables, conntrack, routeLocalnet] = await Promise.all([
    before?.couldUseNftables ?? couldUseFirst(options),
    readConntrack(sysctl),
    sysctl.read(ROUTE_LOCALNET).catch(() => undefined),
  ]);
  return { couldUseNftables, conntrack, routeLocalnet };
}

/** Reads the rules of other programs; `undefined`: they cannot be read. */
export async function readRuleset(
  backend: Pick<Backend, "readRuleset">,
): Promise<RulesetFacts | undefined> {
  return await backend.readRuleset().catch(() => undefined);
}

async function readConntrack(sysctl: Sysctl): Promise<SystemFacts["conntrack"]> {
  const read = async (name: string) =>
    Number(await sysctl.read(`net.netfilter.nf_conntrack_${name}`));
  try {
    const [entries, max] = await Promise.all([read("count"), read("max")]);
    // A limit of 0 is none.
    return max > 0 ? { entries, max } : undefined;
  } catch {
    return undefined;
  }
}
