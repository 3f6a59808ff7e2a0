/**
 * Works out the answer about one port of a Service: its addresses, the outcomes of connections to each, and its
 * endpoints.
 */
import type { Sender } from "../config/command.ts";
import { findCandidates, indexPorts, slicesOf, topologyMode } from "../policy/endpoints.ts";
import { nodePortClaim } from "../policy/claimed.ts";
import { type Family, familyOf, isSpecialAddress } from "../model/values/address.ts";
import { type DesiredServicePort, isExternal, usedEndpoints } from "../model/kernel/desired.ts";
import { objectKey, servicePortName, vipKey } from "../model/cluster/names.ts";
import type { Protocol, Service, ServicePort } from "../model/cluster/objects.ts";
import type { Finding as NodeFinding } from "../model/status.ts";
import type { State } from "../policy/state.ts";
import { explainEndpoints } from "./endpoints.ts";
import { dropOf } from "./finding.ts";
import { type Frontend, frontendsOf, LISTEN_ADDRESS, policyOf } from "../policy/frontend.ts";
import { takesNodePorts } from "../policy/node.ts";
import type { Inspector } from "../source/objects/inspect.ts";
import type { World } from "./outcome.ts";
import { explainPacket } from "./packet.ts";
import type { FrontendReport, PortReport } from "./report.ts";

/** The parts of the report. */
interface PortInputs {
  readonly service: Service;
  readonly state: State;
  readonly inspector: Inspector | undefined;
  readonly world: World;
  readonly nodeName: string;
  readonly nodeFindings: readonly NodeFinding[];
}

/** Returns the port of the Service that a desired port stands for. */
export function portOf(
  service: Service | undefined,
  { name, protocol, port }: DesiredServicePort,
): ServicePort | undefined {
  return service?.ports.find((each) =>
    each.port === port && each.protocol === protocol &&
    servicePortName(objectKey(service), each) === name
  );
}

const SENDERS: readonly Sender[] = ["pod", "node", "external"];

/** Reports on one desired port. */
export function portReport(
  desired: DesiredServicePort,
  inputs: PortInputs,
): PortReport {
  const { service, state, world, nodeName, inspector, nodeFindings } = inputs;
  const slices = slicesOf(state.cache, objectKey(service));
  const port = portOf(service, desired) ?? { ...desired, name: "", nodePort: 0 };
  const place = { nodeName, zone: state.cache.node?.zone ?? "" };
  const { family, protocol } = desired;
  const candidates = findCandidates(indexPorts(slices), { port, family, nodeName });
  const topology = topologyMode(candidates, place);
  return {
    name: desired.name,
    family,
    protocol,
    port: desired.port,
    targetPort: inspector?.service?.targetPorts.get(port.name) ?? "",
    topology,
    affinitySeconds: desired.affinitySeconds,
    scheduler: desired.scheduler ?? null,
    sourceRanges: desired.sourceRanges,
    frontends: [
      ...frontendsOf(desired).concat(localhostFrontends(desired, world))
        .map((frontend) => frontendReport(desired, { frontend, world })),
      ...lostFrontends(desired, { service, port, inputs }),
    ],
    endpoints: explainEndpoints({ slices, port, desired, place, candidates, topology }),
    droppedBy: isExternal(desired) && dropOf({
          found: nodeFindings,
          family,
          endpoints: usedEndpoints(desired),
          ownAddresses: world.ownAddresses,
        })?.by || null,
  };
}

/** Returns the node port on loopback if signpost does something for it. */
function localhostFrontends(
  { family, nodePort }: DesiredServicePort,
  { state }: World,
): Frontend[] {
  const isThere = nodePort !== 0 && state.node.families[family].loopback !== undefined;
  return isThere ? [{ type: "nodePort", address: LISTEN_ADDRESS[family], port: nodePort }] : [];
}

function frontendReport(
  desired: DesiredServicePort,
  { frontend, world }: { readonly frontend: Frontend; readonly world: World },
): FrontendReport {
  const { family, protocol } = desired;
  // One address that takes node ports stands for all of them.
  const address = frontend.address ??
    world.ownAddresses.find((own) =>
      familyOf(own) === family && !isSpecialAddress(own) &&
      takesNodePorts(own, { node: world.state.node, isOwn: true })
    );
  return {
    type: frontend.type,
    address: frontend.address ?? null,
    port: frontend.port,
    policy: policyOf(desired, frontend),
    heldBy: null,
    outcomes: address === undefined ? [] : SENDERS.map((sender) => ({
      sender,
      ...explainPacket(
        { sender, source: undefined, address, port: frontend.port, protocol },
        world,
      ),
    })),
  };
}

/** Reports on addresses and node ports that the Service asks for, but another one has. */
function lostFrontends(
  desired: DesiredServicePort,
  { service, port, inputs }: {
    readonly service: Service;
    readonly port: ServicePort;
    readonly inputs: PortInputs;
  },
): FrontendReport[] {
  const { family, protocol } = desired;
  const holders = new Map(
    inputs.state.conflicts.filter(({ loser }) => loser === objectKey(service))
      .map(({ claim, holder }) => [claim, holder]),
  );
  const lost = (type: FrontendReport["type"], address: string | null, number: number) => {
    const holder = holders.get(claimKey({ family, protocol, address, port: number }));
    const policy = policyOf(desired, { type, address: undefined, port: number });
    return holder === undefined
      ? []
      : [{ type, address, port: number, policy, heldBy: holder, outcomes: [] }];
  };
  const of = (type: FrontendReport["type"], addresses: readonly string[]) =>
    addresses.filter((address) => familyOf(address) === family)
      .flatMap((address) => lost(type, address, port.port));
  return [
    ...of("clusterIP", service.clusterIPs),
    ...of("loadBalancerIP", service.loadBalancerIPs),
    ...of("externalIP", service.externalIPs),
    ...port.nodePort === 0 ? [] : lost("nodePort", null, port.nodePort),
  ];
}

/** Returns what a Service claims with an address, or (`null`) a node port; see `claimsOf`. */
export function claimKey({ family, protocol, address, port }: {
  readonly family: Family;
  readonly protocol: Protocol;
  readonly address: string | null;
  readonly port: number;
}): string {
  return address === null
    ? nodePortClaim({ protocol, nodePort: port }, family)
    : vipKey(address, protocol, port);
}
