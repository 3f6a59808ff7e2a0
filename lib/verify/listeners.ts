/** Compares the listeners that node ports on loopback need with the sockets that listen. */
import { hostPort } from "../model/cluster/names.ts";
import type { DesiredState } from "../model/kernel/desired.ts";
import type { ServiceDifference } from "../model/kernel/differences.ts";
import type { Family } from "../model/values/address.ts";
import { LISTEN_ADDRESS, localhostEndpoints } from "../policy/frontend.ts";

export interface WantedListener {
  readonly family: Family;
  readonly port: number;
  /** `namespace/name:port`. */
  readonly servicePort: string;
}

export function wantedListeners({ node, services }: DesiredState): WantedListener[] {
  return [...services.values()].flatMap((ports) =>
    ports.filter((port) => localhostEndpoints(port, node).length > 0)
      .map(({ family, nodePort: port, name: servicePort }) => ({ family, port, servicePort }))
  );
}

/** The addresses as /proc/net/tcp and /proc/net/tcp6 write them: words of 32 bits, each byte swapped. */
const IN_PROC: Readonly<Record<Family, string>> = {
  4: "0100007F",
  6: "00000000000000000000000001000000",
};

/** Returns the listeners that are missing. @param sockets the text of /proc/net/tcp and /proc/net/tcp6 (proc(5)) */
export function missingListeners(
  wanted: readonly WantedListener[],
  sockets: string,
): ServiceDifference[] {
  // The state 0A is LISTEN.
  const listening = new Set(
    [...sockets.matchAll(/^\s*\d+: ([0-9A-F]+:[0-9A-F]{4}) [0-9A-F:]+ 0A /gm)]
      .map(([, address]) => address),
  );
  const inProc = ({ family, port }: WantedListener) =>
    `${IN_PROC[family]}:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return wanted.filter((each) => !listening.has(inProc(each)))
    .map(({ family, port, servicePort }) => ({
      type: "missing",
      in: "listeners on loopback",
      key: hostPort(LISTEN_ADDRESS[family], port),
      desired: "",
      held: "",
      service: servicePort,
    }));
}
