/**
 * Connections that the kernel tracks, of a Service or of a packet's destination.
 *
 * @module
 */
import type { ConntrackEntry } from "../../conntrack/tool.ts";
import { type DesiredServicePort, servingEndpoints } from "../../model/kernel/desired.ts";
import { hostPort, splitHostPort } from "../../model/cluster/names.ts";
import type { Protocol } from "../../model/cluster/objects.ts";
import { warning } from "../service/finding.ts";
import { frontendsOf } from "../../policy/frontend.ts";
import type { Finding, TrackedConnection } from "../report.ts";

/** More than so many of one answer are not shown. */
const MAX_CONNECTIONS = 1_000;

/**
 * The tracked connections to some service ports.
 *
 * @param entries all that `conntrack -L` prints
 */
export function connectionsOf(
  ports: readonly DesiredServicePort[],
  { entries, ownAddresses }: {
    readonly entries: Iterable<ConntrackEntry>;
    readonly ownAddresses: readonly string[];
  },
): TrackedConnection[] {
  const byFrontend = new Map<string, DesiredServicePort>();
  for (const port of ports) {
    for (const frontend of frontendsOf(port)) {
      const addresses = frontend.address === undefined ? ownAddresses : [frontend.address];
      for (const address of addresses) {
        byFrontend.set(flowKey(port.protocol, address, frontend.port), port);
      }
    }
  }
  const found: TrackedConnection[] = [];
  for (const { protocol, original, reply, flags } of entries) {
    const port = byFrontend.get(flowKey(protocol, original.dst, original.dport));
    if (!port || found.length >= MAX_CONNECTIONS) continue;
    found.push({
      protocol,
      source: hostPort(original.src, original.sport),
      destination: hostPort(original.dst, original.dport),
      endpoint: hostPort(reply.src, reply.sport),
      flags,
      isCurrent: isCurrent(port, reply.src, reply.sport),
    });
  }
  return found;
}

function isCurrent(port: DesiredServicePort, address: string, number: number): boolean {
  return servingEndpoints(port).some((each) => each.address === address && each.port === number);
}

/** UDP flows that go on to where no endpoint is: they last for as long as packets come. */
export function connectionFindings(
  connections: readonly TrackedConnection[] | undefined,
): Finding[] {
  const stale = (connections ?? []).filter(({ protocol, isCurrent }) =>
    protocol === "udp" && !isCurrent
  );
  const [first] = stale;
  if (!first) return [];
  return [warning(
    "stale-conntrack",
    `${stale.length} UDP flow${
      stale.length === 1 ? " is" : "s are"
    } tracked to what is no endpoint ` +
      `now, such as ${first.source} to ${first.destination} by ${first.endpoint}`,
    `conntrack -D -p udp --orig-dst ${splitHostPort(first.destination).hostname}`,
  )];
}

function flowKey(protocol: Protocol, address: string, port: number): string {
  return `${protocol} ${hostPort(address, port)}`;
}
