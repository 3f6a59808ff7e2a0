/**
 * Explains packets of this node to node ports on loopback, which no rule leads to an endpoint.
 *
 * @module
 */
import { familyOf, isLoopback } from "../../model/values/address.ts";
import { hostPort } from "../../model/cluster/names.ts";
import { LISTEN_ADDRESS, localhostEndpoints } from "../../policy/frontend.ts";
import { NOTHING, type Outcome, type Packet, type World } from "./outcome.ts";

/** Works out what becomes of the packet; `undefined` if signpost does nothing for node ports there. */
export function localhostOutcome(packet: Packet, world: World): Outcome | undefined {
  const { address, port, protocol, sender } = packet;
  const { node, services } = world.state;
  const family = familyOf(address);
  const { loopback } = node.families[family];
  if (loopback === undefined || !isLoopback(address) || sender !== "node") return undefined;
  const servicePort = [...services.values()].flat().find((each) =>
    each.family === family && each.protocol === protocol && each.nodePort === port
  );
  if (!servicePort) return undefined;
  const about = { ...NOTHING, servicePort: servicePort.name, frontend: "nodePort" } as const;
  if (loopback === "rejects" || protocol !== "tcp") {
    const what = loopback === "rejects"
      ? "nodePortAddresses does not name localhost"
      : `listeners serve TCP alone`;
    return {
      ...about,
      verdict: "reject",
      code: "not-on-localhost",
      reason: `node port ${port}/${protocol} is rejected on loopback: ${what}`,
      rule: world.rules.rejectsLocalhost({
        servicePort,
        frontend: { type: "nodePort", address: undefined, port },
      }),
    };
  }
  const endpoints = localhostEndpoints(servicePort, node);
  const listener = hostPort(LISTEN_ADDRESS[family], port);
  if (endpoints.length === 0 || address !== LISTEN_ADDRESS[family]) {
    const why = endpoints.length === 0
      ? "no endpoint can be used, so there is no listener"
      : `the listener is on ${listener} alone`;
    const reason = `${why}; signpost leaves the packet alone`;
    return { ...about, verdict: "none", code: "no-localhost-listener", reason, rule: null };
  }
  return {
    ...about,
    verdict: "none",
    code: "localhost-listener",
    reason: `signpost listens on ${listener}, and connects to an endpoint from the node's address`,
    rule: null,
    policy: servicePort.externalTrafficPolicy,
    endpoints: endpoints.map((endpoint) => ({
      address: endpoint.address,
      port: endpoint.port,
      probability: 1 / endpoints.length,
      masqueraded: true,
    })),
    affinitySeconds: servicePort.affinitySeconds,
  };
}
