/** A `conntrack` program in memory, and flows to fill it with. */
import type { Protocol } from "../../lib/model/cluster/objects.ts";
import type { Family } from "../../lib/model/values/address.ts";
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../../lib/model/ports/ports.ts";

/** A tracked flow, of TCP and SCTP one without an answer, from `src` to `dst:dport` that `replySrc:replySport` answers. */
export interface Flow {
  readonly src: string;
  readonly sport: number;
  readonly dst: string;
  readonly dport: number;
  readonly replySrc: string;
  readonly replySport: number;
  /** 0: the default zone. */
  readonly zone: number;
  readonly protocol: Protocol;
}

/** A UDP flow, written `client:port > destination:port > endpoint:port`; the last part absent: not translated. */
export function flow(text: string, zone = 0): Flow {
  const [client, to, by = to] = text.split(" > ");
  const [src, sport] = split(client);
  const [dst, dport] = split(to);
  const [replySrc, replySport] = split(by);
  return { src, sport, dst, dport, replySrc, replySport, zone, protocol: "udp" };
}

function split(text = ""): readonly [string, number] {
  const colon = text.lastIndexOf(":");
  return [text.slice(0, colon).replace(/[[\]]/g, ""), Number(text.slice(colon + 1))];
}

/** The state that an entry of TCP or SCTP has until the first answer. */
const STATES = { udp: "", tcp: "SYN_SENT", sctp: "COOKIE_WAIT" } as const;

const STARTS = {
  udp: "udp      17 29",
  tcp: "tcp      6 29 SYN_SENT",
  sctp: "sctp     132 2 COOKIE_WAIT",
} as const;

/** The line that `conntrack -L` prints. */
export function formatFlow(each: Flow): string {
  const { src, sport, dst, dport, replySrc, replySport, zone, protocol } = each;
  return `${STARTS[protocol]} src=${src} dst=${dst} sport=${sport} dport=${dport} ` +
    `src=${replySrc} dst=${src} sport=${replySport} dport=${sport} [ASSURED] mark=0 ` +
    `${zone === 0 ? "" : `zone=${zone} `}use=1`;
}

/** Answers as conntrack 1.4.7 does. */
export class FakeConntrack implements ProcessRunner {
  flows: readonly Flow[];
  /** Each process, as it was started. */
  readonly processes: string[] = [];
  /** The answer of all processes, if set. */
  failure: ProcessResult | undefined;
  isMissing = false;
  /** It cannot be started now, or hangs until it is killed. */
  isFailing = false;
  /** Called before each process. */
  beforeEach: () => void = () => {};

  constructor(flows: readonly Flow[] = []) {
    this.flows = flows;
  }

  run([program, ...args]: readonly [string, ...string[]]): Promise<ProcessResult> {
    this.beforeEach();
    this.processes.push([program, ...args].join(" "));
    if (this.isMissing) return Promise.reject(new ProgramMissingError(program));
    if (this.isFailing) {
      return Promise.reject(new ProgramFailedError(program, "timeout", "did not end"));
    }
    return Promise.resolve(this.failure ?? this.#answer(args));
  }

  #answer(args: readonly string[]): ProcessResult {
    if (args[0] === "-L") {
      const found = this.flows.filter(matcher(args));
      return result(found, { code: 0, verb: "shown" });
    }
    const deleted = this.#delete(args);
    return result(deleted, { code: deleted.length > 0 ? 0 : 1, verb: "deleted" });
  }

  #delete(args: readonly string[]): Flow[] {
    const matches = matcher(args);
    const deleted = this.flows.filter(matches);
    this.flows = this.flows.filter((each) => !matches(each));
    return deleted;
  }
}

function result(
  flows: readonly Flow[],
  { code, verb }: { readonly code: number; readonly verb: string },
): ProcessResult {
  return {
    code,
    stdout: flows.map((each) => `${formatFlow(each)}\n`).join(""),
    stderr: `conntrack v1.4.7 (conntrack-tools): ${flows.length} flow entries have been ${verb}.\n`,
  };
}

const FIELDS: Readonly<Record<string, (each: Flow) => string>> = {
  "--orig-dst": ({ dst }) => dst,
  "--orig-port-dst": ({ dport }) => String(dport),
  "--reply-src": ({ replySrc }) => replySrc,
  "--reply-port-src": ({ replySport }) => String(replySport),
  "-w": ({ zone }) => String(zone),
  "-f": ({ src }) => `ipv${familyOfFlow(src)}`,
  "-p": ({ protocol }) => protocol,
  "--state": ({ protocol }) => STATES[protocol],
};

function matcher([, ...options]: readonly string[]): (each: Flow) => boolean {
  const wanted: (readonly [(each: Flow) => string, string])[] = [];
  for (let index = 0; index < options.length; index += 2) {
    const field = FIELDS[options[index] ?? ""];
    if (!field) throw new Error(`conntrack has no such option: ${options[index]}`);
    wanted.push([field, options[index + 1] ?? ""]);
  }
  return (each) => wanted.every(([field, value]) => field(each) === value);
}

function familyOfFlow(address: string): Family {
  return address.includes(":") ? 6 : 4;
}
