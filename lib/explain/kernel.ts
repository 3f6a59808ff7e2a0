/** Reads our rules and tracked connections from the kernel, and compares them with the desired state. */
import type { Backend, PortsOfNode, StickyClient } from "../backend/backend.ts";
import { type ConntrackEntry, parseEntries } from "../conntrack/tool.ts";
import { hostPort, splitHostPort } from "../model/cluster/names.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { type DesiredServicePort, servingEndpoints } from "../model/kernel/desired.ts";
import {
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../model/ports/ports.ts";
import { FAMILIES } from "../model/values/address.ts";
import { FatalError } from "../model/values/errors.ts";
import { count, plain } from "../model/values/text.ts";
import { frontendsOf } from "../policy/frontend.ts";
import { error, note, sortFindings, warning } from "./finding.ts";
import type { Finding, KernelReport, Report, TrackedConnection } from "./report.ts";

/** The kernel's rules of some service ports. */
export interface KernelFacts extends KernelReport {
  readonly stickyClients: readonly StickyClient[];
  /** Rules of kube-proxy that were seen, such as `table ip kube-proxy`. */
  readonly kubeProxy: readonly string[];
}

/** The part of an answer that the kernel gives. */
export interface KernelPart {
  readonly kernel: KernelFacts;
  /** `undefined`: not asked for. */
  readonly connections: readonly TrackedConnection[] | undefined;
}

/** Adds what the kernel holds to a report. @param kernel is compared with rules that the report is about */
export function withKernel<R extends Report>(report: R, { kernel, connections }: KernelPart): R {
  const { state, reason, entries } = kernel;
  return {
    ...report,
    findings: sortFindings([
      ...report.findings,
      ...kernelFindings(kernel),
      ...connectionFindings(connections),
    ]),
    kernel: { state, reason, entries },
    connections: connections ?? null,
  };
}

/** Reads the kernel's rules of some ports. If they cannot be read, the result says why. */
export async function readKernel(
  backend: Pick<Backend, "rules" | "foreignRules">,
  about: PortsOfNode,
): Promise<KernelFacts> {
  const nothing = { reason: "", entries: [], stickyClients: [], kubeProxy: [] };
  try {
    const [rules, kubeProxy] = await Promise.all([
      backend.rules.read(about),
      backend.foreignRules.findProxy(),
    ]);
    if (rules.isEmpty) return { ...nothing, state: "empty", kubeProxy };
    const entries = rules.entries(about.ports, about.node);
    const state = entries.every((each) => each.state === "same") ? "same" : "different";
    const stickyClients = rules.stickyClients(about.ports);
    return { ...nothing, state, entries, stickyClients, kubeProxy };
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { ...nothing, state: "unread", reason: plain(error.message) };
  }
}

/** Says what the kernel's state means for traffic. */
function kernelFindings({ state, reason, entries, kubeProxy }: KernelFacts): Finding[] {
  const found = kubeProxy.map((what) =>
    warning(
      "kube-proxy-rules",
      `rules of kube-proxy are in the kernel, too (${what}): two proxies take the same packets`,
      "stop kube-proxy, then start signpost again: it removes them",
    )
  );
  switch (state) {
    case "same":
      return found;
    case "unread":
      return [
        note("kernel-unread", `the kernel's rules were not read: ${reason}`, "run it as root"),
      ];
    case "empty":
      return [
        ...found,
        error(
          "no-rules",
          "the kernel holds no rules of signpost's",
          "start signpost, or see its log: journalctl -u signpost",
        ),
      ];
    case "different": {
      const [first, ...others] = entries.filter((each) => each.state !== "same");
      const key = first?.key === "" ? "" : `: ${first?.key}`;
      const more = others.length > 0 ? ` and ${others.length} more` : "";
      return [
        ...found,
        error(
          "kernel-differs",
          `the kernel differs from the desired rules: ${first?.state} in ${first?.in}${key}${more}`,
          "signpost verify --fix asks the daemon for a full sync",
        ),
      ];
    }
  }
}

interface ConnectionOptions {
  readonly runner: ProcessRunner;
  readonly ownAddresses: readonly string[];
}

/** Returns the tracked connections to some service ports. @throws {FatalError} if they cannot be listed */
export async function readConnections(
  ports: readonly DesiredServicePort[],
  { runner, ownAddresses }: ConnectionOptions,
): Promise<TrackedConnection[]> {
  const listings = FAMILIES.map(async (family) => {
    const { code, stdout, stderr } = await runner.run(["conntrack", "-L", "-f", `ipv${family}`])
      .catch((error) => {
        if (error instanceof ProgramMissingError) {
          throw new FatalError("--conntrack needs the program conntrack (package conntrack-tools)");
        }
        if (!(error instanceof ProgramFailedError)) throw error;
        throw new FatalError(`--conntrack: ${error.message}`, { cause: error });
      });
    if (code !== 0) {
      throw new FatalError(`--conntrack: conntrack -L failed: ${stderr.trim().split("\n")[0]}`);
    }
    return [...parseEntries(stdout)];
  });
  return connectionsOf(ports, { entries: (await Promise.all(listings)).flat(), ownAddresses });
}

/** Returns the ports by protocol and destination, as `tcp 10.96.0.10:80`. */
export function portsByFrontend(
  ports: readonly DesiredServicePort[],
  ownAddresses: readonly string[],
): ReadonlyMap<string, DesiredServicePort> {
  return new Map(
    ports.flatMap((servicePort) =>
      frontendsOf(servicePort).flatMap(({ address, port }) =>
        (address === undefined ? ownAddresses : [address])
          .map((each) => [`${servicePort.protocol} ${hostPort(each, port)}`, servicePort] as const)
      )
    ),
  );
}

/** The most connections in an answer. */
const MAX_CONNECTIONS = 1_000;

/** Picks the connections to some service ports. @param entries all that `conntrack -L` prints */
export function connectionsOf(
  ports: readonly DesiredServicePort[],
  { entries, ownAddresses }: Pick<ConnectionOptions, "ownAddresses"> & {
    readonly entries: Iterable<ConntrackEntry>;
  },
): TrackedConnection[] {
  const byFrontend = portsByFrontend(ports, ownAddresses);
  const found: TrackedConnection[] = [];
  for (const { protocol, original, reply, flags } of entries) {
    const destination = hostPort(original.dst, original.dport);
    const port = byFrontend.get(`${protocol} ${destination}`);
    if (!port || found.length >= MAX_CONNECTIONS) continue;
    found.push({
      protocol,
      source: hostPort(original.src, original.sport),
      destination,
      endpoint: hostPort(reply.src, reply.sport),
      flags,
      isCurrent: servingEndpoints(port).some((each) =>
        each.address === reply.src && each.port === reply.sport
      ),
    });
  }
  return found;
}

/** Finds UDP flows to addresses that are no endpoints: they last for as long as packets come. */
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
    `${count(stale.length, "UDP flow")} ${stale.length === 1 ? "is" : "are"} tracked to what is ` +
      `no endpoint now, such as ${first.source} to ${first.destination} by ${first.endpoint}`,
    `conntrack -D -p udp --orig-dst ${splitHostPort(first.destination).hostname}`,
  )];
}
