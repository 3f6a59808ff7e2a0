/** Connects to the endpoints and the frontends of Services, and describes the results. */
import { API_SERVICE, hostPort, serviceOf } from "../model/cluster/names.ts";
import type { Clock, Prober } from "../model/ports/ports.ts";
import { errorText } from "../model/values/text.ts";
import { error, warning } from "./finding.ts";
import type { ExplainFinding, PortReport, ProbedConnection, ProbeReport } from "./report.ts";

/** Milliseconds for one connection. */
const TIMEOUT = 1_000;

/** The most endpoints and the most frontends of one Service. */
const MOST_TARGETS = 200;

type Target = Omit<ProbedConnection, "result" | "text">;

const DNS_PORT = 53;

/** Returns the request to a service port; `undefined`: it cannot be probed. */
function requestTo({ name, protocol, port }: PortReport): Target["request"] | undefined {
  if (protocol === "udp" && port === DNS_PORT) return "dns";
  if (protocol !== "tcp") return undefined;
  return serviceOf(name) === API_SERVICE ? "readyz" : "connect";
}

/** Lists the addresses of a Service that can be probed, endpoints first. An expected one takes precedence. */
export function probesOf(
  ports: readonly PortReport[],
): Omit<ProbeReport, "connections"> & { readonly targets: readonly Target[] } {
  const all = ports.flatMap((port) => [...targetsOf(port)]);
  const last = [...all, ...all.filter(({ isExpected }) => isExpected)];
  const unique = new Map(last.map((each) => [probedPlace(each), each]));
  const kinds = Map.groupBy(unique.values(), ({ type }) => type === "endpoint");
  const targets = [true, false].flatMap((kind) => kinds.get(kind)?.slice(0, MOST_TARGETS) ?? []);
  const others = ports.filter((port) => !requestTo(port)).map(({ protocol }) => protocol);
  return { targets, notProbed: [...new Set(others)], omitted: unique.size - targets.length };
}

function* targetsOf(port: PortReport): Generator<Target> {
  const { name: servicePort, protocol, endpoints, frontends } = port;
  const request = requestTo(port);
  if (!request) return;
  const about = { servicePort, protocol, request };
  for (const { address, port, usedFor } of endpoints) {
    if (port === null) continue;
    yield { type: "endpoint", address, port, isExpected: usedFor.length > 0, ...about };
  }
  for (const { type, addresses, port, outcomes } of frontends) {
    const outcome = outcomes.find(({ sender }) => sender === "node");
    const isServed = outcome?.verdict === "dnat" || outcome?.code === "localhost-listener";
    // An address that signpost leaves alone belongs to another program.
    if (!outcome || outcome.verdict === "none" && !isServed) continue;
    const isExpected = isServed && outcome.conditions.length === 0;
    for (const address of addresses) yield { type, address, port, isExpected, ...about };
  }
}

/** Returns `10.0.0.1:80`, or `10.0.0.1:53/udp`. */
export function probedPlace(
  { address, port, protocol }: Pick<Target, "address" | "port" | "protocol">,
): string {
  return hostPort(address, port) + (protocol === "tcp" ? "" : `/${protocol}`);
}

interface ProbeOptions {
  readonly ask: Prober;
  readonly clock: Pick<Clock, "monotonic">;
  readonly signal: AbortSignal;
  /** The number of connections at one time. */
  readonly atOnce: number;
}

/** Probes each target. @returns the results until the abort */
export async function probe(
  targets: readonly Target[],
  { ask, clock, signal, atOnce }: ProbeOptions,
): Promise<ProbedConnection[]> {
  const results: ProbedConnection[] = [];
  const left = targets.entries();
  const work = async () => {
    for (const [at, target] of left) {
      const start = clock.monotonic();
      const failure = await ask(target, { timeout: TIMEOUT, signal })
        .then(() => undefined, (error) => failureOf(error, target));
      if (signal.aborted) return;
      const text = `open ${Math.round((clock.monotonic() - start) * 10) / 10} ms`;
      results[at] = { ...target, ...failure ?? { result: "open", text } };
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  // An abort leaves holes.
  return results.flat();
}

type Failure = Pick<ProbedConnection, "result" | "text">;

/** Describes an error of connect(2), or of a bad answer. */
function failureOf(error: Error & { readonly code?: string }, { port }: Target): Failure {
  const noRoute: Failure = { result: "no-route", text: "no route" };
  const known: Readonly<Record<string, Failure>> = {
    ECONNREFUSED: {
      result: "refused",
      text: `refused: nothing listens on ${port}, or a rule rejects it`,
    },
    EHOSTUNREACH: noRoute,
    ENETUNREACH: noRoute,
    TimeoutError: { result: "no-answer", text: `no answer in ${TIMEOUT / 1_000} s` },
  };
  return known[error.code ?? ""] ?? known[error.name] ??
    { result: "failed", text: `failed: ${errorText(error)}` };
}

/** The code of the finding on used endpoints that cannot be used from this node. */
export const UNREACHABLE = "endpoint-unreachable";

const HINT =
  "look at the port that its program listens on, at network policies, and at the route to it";

/** Returns the findings on the results. */
export function probeFindings(connections: readonly ProbedConnection[]): ExplainFinding[] {
  const used = connections.filter(({ type, isExpected }) => type === "endpoint" && isExpected);
  const [first, ...others] = used.filter(({ result }) => result !== "open");
  if (first) {
    const open = used.length - others.length - 1;
    const more = others.length > 0 ? ` and ${others.length} more` : "";
    const what = `works here for ${open} of ${used.length} endpoints: ` +
      `${probedPlace(first)} (${first.text})${more}`;
    return [(open === 0 ? error : warning)(UNREACHABLE, what, HINT)];
  }
  // If an endpoint does not answer, a frontend fails sometimes, so this is not a finding on it.
  return connections.filter(({ isExpected, result }) => isExpected && result !== "open")
    .map((each) => {
      const what = `each used endpoint answers, but not ${probedPlace(each)} (${each.type}): `;
      return error("frontend-unreachable", what + each.text, "signpost verify compares the rules");
    });
}
