/** Reads our rules and tracked connections from the kernel, and compares them with the desired state. */
import {
  type DesiredNode,
  type DesiredServicePort,
  servingEndpoints,
} from "../model/kernel/desired.ts";
import { error, note, warning } from "./finding.ts";
import type { Backend, KernelRules, PortsOfNode } from "../backend/backend.ts";
import type { Finding, KernelReport, TrackedConnection } from "./report.ts";
import { append } from "../model/values/lists.ts";
import { plain } from "../model/values/text.ts";
import { type ConntrackEntry, parseEntries } from "../conntrack/tool.ts";
import type { Family } from "../model/values/address.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import {
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../model/ports/ports.ts";
import { FatalError } from "../model/values/errors.ts";
import { hostPort, splitHostPort } from "../model/cluster/names.ts";
import type { Protocol } from "../model/cluster/objects.ts";
import { frontendsOf } from "../policy/frontend.ts";

/** The result of reading the kernel. */
export type KernelView =
  | {
    readonly type: "read";
    readonly rules: Pick<KernelRules, "entries" | "stickyClients">;
    /** Rules of kube-proxy that were seen, such as `table ip kube-proxy`. */
    readonly kubeProxy: readonly string[];
  }
  /** The kernel has no rules of signpost. */
  | { readonly type: "empty"; readonly kubeProxy: readonly string[] }
  | { readonly type: "unread"; readonly reason: string };

/** Compares some service ports with the kernel. */
export function kernelReport(
  ports: readonly DesiredServicePort[],
  { node, view }: { readonly node: DesiredNode; readonly view: KernelView },
): KernelReport {
  if (view.type === "unread") return { state: "unread", reason: view.reason, entries: [] };
  if (view.type === "empty") return { state: "empty", reason: "", entries: [] };
  const entries = view.rules.entries(ports, node);
  const isSame = entries.every(({ state }) => state === "same");
  return { state: isSame ? "same" : "different", reason: "", entries };
}

/** Says what the kernel's state means for traffic. */
export function kernelFindings(report: KernelReport, view: KernelView): Finding[] {
  const kubeProxy = view.type === "unread" ? [] : view.kubeProxy;
  return [
    ...kubeProxy.map((what) =>
      warning(
        "kube-proxy-rules",
        `rules of kube-proxy are in the kernel, too (${what}): two proxies take the same packets`,
        "stop kube-proxy, then: signpost cleanup --kube-proxy",
      )
    ),
    ...stateFindings(report),
  ];
}

function stateFindings({ state, reason, entries }: KernelReport): Finding[] {
  switch (state) {
    case "same":
      return [];
    case "unread":
      return [
        note("kernel-unread", `the kernel's rules were not read: ${reason}`, "run it as root"),
      ];
    case "empty":
      return [error(
        "no-rules",
        "the kernel holds no rules of signpost's",
        "start signpost, or see its log: journalctl -u signpost",
      )];
    case "different": {
      const wrong = entries.filter((each) => each.state !== "same");
      const [first] = wrong;
      const more = wrong.length > 1 ? ` and ${wrong.length - 1} more` : "";
      return [error(
        "kernel-differs",
        `the kernel differs from the desired rules: ${first?.state} in ${first?.in}` +
          `${first?.key === "" ? "" : `: ${first?.key}`}${more}`,
        "signpost verify --fix asks the daemon for a full sync",
      )];
    }
  }
}

/** Reads the kernel's rules of some ports; that they cannot be read is an answer, too. */
export async function readKernel(
  backend: Pick<Backend, "read" | "foreignRules">,
  about: PortsOfNode,
): Promise<KernelView> {
  try {
    const [rules, kubeProxy] = await Promise.all([
      backend.read(about),
      backend.foreignRules.findProxy(),
    ]);
    return rules.isEmpty ? { type: "empty", kubeProxy } : { type: "read", kubeProxy, rules };
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { type: "unread", reason: plain(error.message) };
  }
}

/**
 * Returns all connections of a family that the kernel tracks.
 * @throws {FatalError} if they cannot be listed
 */
export async function readConnections(
  runner: ProcessRunner,
  families: readonly Family[],
): Promise<ConntrackEntry[]> {
  const entries: ConntrackEntry[] = [];
  for (const family of families) {
    const { code, stdout, stderr } = await runner.run(["conntrack", "-L", "-f", `ipv${family}`])
      .catch((error) => {
        if (error instanceof ProgramFailedError) {
          throw new FatalError(`--conntrack: ${error.message}`, { cause: error });
        }
        if (!(error instanceof ProgramMissingError)) throw error;
        throw new FatalError("--conntrack needs the program conntrack (package conntrack-tools)");
      });
    if (code !== 0) {
      throw new FatalError(`--conntrack: conntrack -L failed: ${stderr.trim().split("\n")[0]}`);
    }
    append(entries, parseEntries(stdout));
  }
  return entries;
}

/** More than so many of one answer are not shown. */
const MAX_CONNECTIONS = 1_000;

/**
 * Returns the tracked connections to some service ports.
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
