/**
 * Works out the findings of this node for commands: from facts, and from the running daemon.
 *
 * @module
 */
import { type Ask, askStatus } from "../../daemon/objects/client.ts";
import type { NodeFacts, ObjectFacts } from "../../findings/facts.ts";
import { findAll, findingKey, sortFindings } from "../../findings/findings.ts";
import type { Finding, Status } from "../../model/status.ts";
import { atOnce } from "../../model/ports/in_turns.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { State } from "../../policy/state.ts";

/** Asks the daemon; `undefined`: none answers, or it runs for another node. */
export async function askDaemonOf(
  nodeName: string,
  { socket, ask, service }: {
    readonly socket: string;
    readonly ask?: Ask | undefined;
    /** The Service whose status is wanted, too. */
    readonly service?: string | undefined;
  },
): Promise<Status | undefined> {
  try {
    const status = await askStatus(socket, ask, service);
    return status.node === nodeName ? status : undefined;
  } catch (error) {
    if (error instanceof FatalError) return undefined;
    throw error;
  }
}

/** Works findings out from facts, and adds those that only the daemon knows. */
export function findingsOf(facts: NodeFacts, daemon: Status | undefined): Finding[] {
  const all = new Map<string, Finding>();
  for (const each of [...atOnce(findAll(facts)), ...daemon?.findings ?? []]) {
    all.set(findingKey(each), each);
  }
  return sortFindings([...all.values()]);
}

/** Takes from a state what findings are worked out from. */
export function objectFacts({ cache, desired }: Pick<State, "cache" | "desired">): ObjectFacts {
  return { node: cache.node, desired, healthChecks: desired.healthChecks };
}
