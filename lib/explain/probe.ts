/** Connects to the endpoints and the frontends of Services, and says what answered. */
import { API_SERVICE, hostPort, serviceOf } from "../model/cluster/names.ts";
import type { Clock, Prober } from "../model/ports/ports.ts";
import { errorText } from "../model/values/text.ts";
import { error, warning } from "./finding.ts";
import type { Finding, PortReport, ProbedConnection, ProbeReport } from "./report.ts";

/** Milliseconds that a connection may take. */
const TIMEOUT = 1_000;

/** The most endpoints and the most frontends of one Service. */
const MOST = 200;

type Target = Omit<ProbedConnection, "result" | "milliseconds" | "reason">;

const DNS_PORT = 53;

/** Returns what a service port is asked; `undefined`: it cannot be probed. */
function requestTo({ name, protocol, port }: PortReport): Target["request"] | undefined {
  if (protocol !== "sctp" && port === DNS_PORT) return "dns";
  if (protocol !== "tcp") return undefined;
  return serviceOf(name) === API_SERVICE ? "readyz" : "connect";
}

/** Lists what of a Service can be connected to. */
export function probesOf(
  ports: readonly PortReport[],
): Omit<ProbeReport, "connections"> & { readonly targets: readonly Target[] } {
  const probed = ports.flatMap((each) => {
    const request = requestTo(each);
    const { name: servicePort, protocol } = each;
    return request === undefined ? [] : [{ ...each, about: { servicePort, protocol, request } }];
  });
  const endpoints = unique(
    probed.flatMap(({ about, endpoints }) =>
      endpoints.flatMap(({ address, port, usedFor }): Target[] =>
        port === null
          ? []
          : [{ type: "endpoint", ...about, address, port, isExpected: usedFor.length > 0 }]
      )
    ),
  );
  const frontends = unique(probed.flatMap(frontendsOf));
  const targets = [...endpoints.slice(0, MOST), ...frontends.slice(0, MOST)];
  return {
    targets,
    notProbed: [
      ...new Set(ports.filter((each) => !requestTo(each)).map(({ protocol }) => protocol)),
    ],
    omitted: endpoints.length + frontends.length - targets.length,
  };
}

function frontendsOf(
  { about, frontends }: PortReport & {
    readonly about: Pick<Target, "servicePort" | "protocol" | "request">;
  },
): Target[] {
  return frontends.flatMap(({ type, addresses, port, heldBy, outcomes }) => {
    const outcome = outcomes.find(({ sender }) => sender === "node");
    const { verdict, code, conditions = [] } = outcome ?? {};
    const isServed = verdict === "dnat" || code === "localhost-listener";
    // What signpost leaves alone belongs to another program.
    if (heldBy !== null || verdict === undefined || verdict === "none" && !isServed) return [];
    const isExpected = isServed && conditions.length === 0;
    return addresses.map((address) => ({ type, ...about, address, port, isExpected }));
  });
}

/** Drops what is there twice. An endpoint that is used takes precedence. */
function unique(targets: readonly Target[]): Target[] {
  const found = new Map<string, Target>();
  for (const each of targets) {
    const key = probedPlace(each);
    if (each.isExpected || !found.has(key)) found.set(key, each);
  }
  return [...found.values()];
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
  /** The number of connections that are tried at one time. */
  readonly atOnce: number;
}

/** Asks each target. @returns those that were tried before the abort */
export async function probe<T extends Target>(
  targets: readonly T[],
  options: ProbeOptions & {
    /** Gets the number of targets that were tried. */
    readonly progress?: (tried: number) => void;
  },
): Promise<(T & ProbedConnection)[]> {
  const { signal, atOnce, progress = () => {} } = options;
  let tried = 0;
  const results: (T & ProbedConnection)[] = [];
  const left = targets.entries();
  const work = async () => {
    for (const [at, target] of left) {
      if (signal.aborted) return;
      const result = await connect(target, options);
      if (signal.aborted) return;
      results[at] = { ...target, ...result };
      progress(++tried);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  // An abort leaves holes.
  return results.filter((each) => each !== undefined);
}

type Result = Pick<ProbedConnection, "result" | "milliseconds" | "reason">;

async function connect(
  target: Target,
  { ask, clock, signal }: ProbeOptions,
): Promise<Result> {
  const start = clock.monotonic();
  const ended = (result: Result["result"], reason = "") => ({
    result,
    milliseconds: Math.round((clock.monotonic() - start) * 10) / 10,
    reason,
  });
  try {
    const fault = await ask(target, { timeout: TIMEOUT, signal });
    return fault === "" ? ended("open") : ended("failed", fault);
  } catch (error) {
    const { name, code } = error as { readonly name?: string; readonly code?: string };
    if (code === "ECONNREFUSED") return ended("refused");
    if (code === "EHOSTUNREACH" || code === "ENETUNREACH") return ended("no-route");
    if (name === "TimeoutError") return ended("no-answer");
    return ended("failed", errorText(error));
  }
}

/** Says what a connection met, in a few words. */
export function resultText(
  { type, port, result, milliseconds, reason, isExpected }: ProbedConnection,
): string {
  switch (result) {
    case "open":
      return `open ${milliseconds} ms`;
    case "refused":
      return type !== "endpoint"
        ? `refused${isExpected ? "" : ", as the rules say"}`
        : `refused: nothing listens on ${port}, or a rule rejects it`;
    case "no-answer":
      return `no answer in ${TIMEOUT / 1_000} s`;
    case "no-route":
      return "no route";
    case "failed":
      return `failed: ${reason}`;
  }
}

const DOES: Readonly<Record<ProbedConnection["result"], string>> = {
  open: "answers",
  refused: "refuses connections",
  "no-answer": "does not answer",
  "no-route": "cannot be reached: no route",
  failed: "fails",
};

const HINTS: Readonly<Record<ProbedConnection["result"], string>> = {
  open: "",
  refused: "compare the Service's targetPort with the port that the program in the pod listens on",
  "no-answer":
    "look at its pod, at the network policies of its namespace and at the route to its node",
  "no-route": "see the routes of the network plug-in: ip route get ADDRESS",
  failed: "",
};

/** Returns `for 2 of 3 endpoints: …` if a part of the used endpoints answers, else `""`. */
export function answeredPart(probe: ProbeReport | null): string {
  const { used, silent, described } = endpointsOf(probe);
  if (silent.length === 0 || silent.length === used.length) return "";
  return `for ${used.length - silent.length} of ${used.length} endpoints: ${described}`;
}

function endpointsOf(probe: ProbeReport | null) {
  const used = (probe?.connections ?? [])
    .filter(({ type, isExpected }) => type === "endpoint" && isExpected);
  const silent = used.filter(({ result }) => result !== "open");
  const [first] = silent;
  const more = silent.length > 1 ? ` (and ${silent.length - 1} more)` : "";
  return { used, silent, described: first ? describe(first) + more : "" };
}

function describe(connection: ProbedConnection): string {
  const { result, reason } = connection;
  return `${probedPlace(connection)} ${DOES[result]}${reason && `: ${reason}`}`;
}

/** Says what the results mean for traffic. */
export function probeFindings(probe: ProbeReport): Finding[] {
  const { used, silent, described } = endpointsOf(probe);
  const [first] = silent;
  if (first) {
    const make = silent.length === used.length ? error : warning;
    return [make(
      "endpoint-unreachable",
      `${silent.length} of ${used.length} used endpoints cannot be used from this node: ` +
        described,
      HINTS[first.result],
    )];
  }
  // With endpoints that do not answer, a frontend fails now and then.
  return probe.connections
    .filter(({ type, isExpected, result }) =>
      type !== "endpoint" && isExpected && result !== "open"
    )
    .map((each) =>
      error(
        "frontend-unreachable",
        `from this node, ${describe(each)} (${each.type}), although each used endpoint answers`,
        "signpost verify compares the rules",
      )
    );
}
