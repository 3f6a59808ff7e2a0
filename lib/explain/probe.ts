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

type Target = Omit<ProbedConnection, "result" | "milliseconds" | "reason">;

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
  const all = [endpointsOf, frontendsOf].map((list) => {
    const targets = ports.flatMap((port) => {
      const { name: servicePort, protocol } = port;
      const request = requestTo(port);
      return request ? list(port).map((each) => ({ ...each, servicePort, protocol, request })) : [];
    });
    const last = [...targets, ...targets.filter(({ isExpected }) => isExpected)];
    return [...new Map(last.map((each) => [probedPlace(each), each])).values()];
  });
  const targets = all.flatMap((each) => each.slice(0, MOST_TARGETS));
  const others = ports.filter((port) => !requestTo(port)).map(({ protocol }) => protocol);
  return { targets, notProbed: [...new Set(others)], omitted: all.flat().length - targets.length };
}

type ProbeAddress = Pick<Target, "type" | "address" | "port" | "isExpected">;

function endpointsOf({ endpoints }: PortReport): ProbeAddress[] {
  return endpoints.flatMap(({ address, port, usedFor }) =>
    port === null ? [] : [{ type: "endpoint", address, port, isExpected: usedFor.length > 0 }]
  );
}

function frontendsOf({ frontends }: PortReport): ProbeAddress[] {
  return frontends.flatMap(({ type, addresses, port, heldBy, outcomes }) => {
    const outcome = outcomes.find(({ sender }) => sender === "node");
    const { verdict, code, conditions = [] } = outcome ?? {};
    const isServed = verdict === "dnat" || code === "localhost-listener";
    // An address that signpost leaves alone belongs to another program.
    if (heldBy !== null || verdict === undefined || verdict === "none" && !isServed) return [];
    const isExpected = isServed && conditions.length === 0;
    return addresses.map((address) => ({ type, address, port, isExpected }));
  });
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
  /** Receives the number of tried targets. */
  readonly progress?: (tried: number) => void;
}

type Result = ProbedConnection["result"];

/** The results by code or name of the error, as of connect(2). Other errors are failures. */
const RESULTS: Readonly<Record<string, Result>> = {
  ECONNREFUSED: "refused",
  EHOSTUNREACH: "no-route",
  ENETUNREACH: "no-route",
  TimeoutError: "no-answer",
};

/** Probes each target. @returns the results until the abort */
export async function probe(
  targets: readonly Target[],
  { ask, clock, signal, atOnce, progress = () => {} }: ProbeOptions,
): Promise<ProbedConnection[]> {
  let tried = 0;
  const results: ProbedConnection[] = [];
  const left = targets.entries();
  const work = async () => {
    for (const [at, target] of left) {
      if (signal.aborted) return;
      const start = clock.monotonic();
      const [result, reason] = await ask(target, { timeout: TIMEOUT, signal }).then(
        (fault): [Result, string] => [fault === "" ? "open" : "failed", fault],
        (error): [Result, string] => {
          const result = RESULTS[error.code] ?? RESULTS[error.name] ?? "failed";
          return [result, result === "failed" ? errorText(error) : ""];
        },
      );
      if (signal.aborted) return;
      const milliseconds = Math.round((clock.monotonic() - start) * 10) / 10;
      results[at] = { ...target, result, milliseconds, reason };
      progress(++tried);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  // An abort leaves holes.
  return results.filter((each) => each !== undefined);
}

/** Describes a result in a few words. */
export function resultText(
  { type, port, result, milliseconds, reason, isExpected }: ProbedConnection,
): string {
  const texts: Readonly<Record<Result, string>> = {
    open: `open ${milliseconds} ms`,
    refused: type === "endpoint"
      ? `refused: nothing listens on ${port}, or a rule rejects it`
      : `refused${isExpected ? "" : ", as the rules say"}`,
    "no-answer": `no answer in ${TIMEOUT / 1_000} s`,
    "no-route": "no route",
    failed: `failed: ${reason}`,
  };
  return texts[result];
}

const HINTS: Readonly<Record<Result, string>> = {
  open: "",
  refused: "compare the Service's targetPort with the port that the program in the pod listens on",
  "no-answer":
    "look at its pod, at the network policies of its namespace and at the route to its node",
  "no-route": "see the routes of the network plug-in: ip route get ADDRESS",
  failed: "",
};

/** The code of the finding on used endpoints that cannot be used from this node. */
export const UNREACHABLE = "endpoint-unreachable";

/** Returns the findings on the results. */
export function probeFindings({ connections }: Pick<ProbeReport, "connections">): ExplainFinding[] {
  const used = connections.filter(({ type, isExpected }) => type === "endpoint" && isExpected);
  const [first, ...others] = used.filter(({ result }) => result !== "open");
  if (first) {
    const open = used.length - others.length - 1;
    const more = others.length > 0 ? ` and ${others.length} more` : "";
    const what = `works here for ${open} of ${used.length} endpoints: ` +
      `${probedPlace(first)} (${resultText(first)})${more}`;
    return [(open === 0 ? error : warning)(UNREACHABLE, what, HINTS[first.result])];
  }
  // If an endpoint does not answer, a frontend fails sometimes, so this is not a finding on it.
  return connections.filter(({ isExpected, result }) => isExpected && result !== "open")
    .map((each) =>
      error(
        "frontend-unreachable",
        `each used endpoint answers, but ${
          probedPlace(each)
        } (${each.type}) does not from this node: ` +
          resultText(each),
        "signpost verify compares the rules",
      )
    );
}
