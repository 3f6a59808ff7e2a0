/** Finds the Service or the packet of a question. */
import type {
  AskedAddress,
  AskedService,
  ExplainTarget,
  PacketTarget,
  PacketToService,
  ServiceTarget,
} from "../config/command.ts";
import { hostPort, objectKey, serviceOf, splitKey } from "../model/cluster/names.ts";
import { familyOf } from "../model/values/address.ts";
import { FatalError } from "../model/values/errors.ts";
import { frontendsOf } from "../policy/frontend.ts";
import { suggestService } from "./causes.ts";
import { findFrontend, type Known } from "./packet.ts";
import { askedPorts } from "./service_report.ts";

/** @throws {FatalError} if not exactly one Service with rules on this node fits */
export function findTarget(asked: ExplainTarget, known: Known): ServiceTarget | PacketTarget {
  switch (asked.type) {
    case "packet":
      return asked;
    case "service":
      return serviceNamed(asked, known);
    case "address":
      return serviceAt(asked, known);
    case "packet-to-service":
      return packetTo(asked, known);
  }
}

export function serviceNamed(asked: AskedService, { cache }: Known): ServiceTarget {
  const services = [...cache.services.keys()];
  return { ...asked, namespace: asked.namespace ?? namespaceOf(asked.name, services) };
}

/** Returns the namespace of a Service. @throws {FatalError} if its name is not in exactly one namespace */
function namespaceOf(name: string, services: readonly string[]): string {
  const [key, ...others] = services.filter((each) => each.endsWith(`/${name}`)).sort();
  if (key === undefined) {
    throw new FatalError(
      `no Service ${name} has a virtual IP in any namespace: name a Service without one as ` +
        `NAMESPACE/${name}.${suggestService({ name }, services)}`,
    );
  }
  if (others.length > 0) {
    const all = [key, ...others].join(", ");
    throw new FatalError(`Service ${name} is in several namespaces: name one of ${all}`);
  }
  return key.split("/")[0] ?? "";
}

/** Returns the Service of a virtual IP, or of a node port at an address of this node. */
function serviceAt({ address, destination }: AskedAddress, known: Known): ServiceTarget {
  const match = destination && findFrontend(destination, known);
  if (match) {
    const { name, port } = match.servicePort;
    const service = serviceOf(name);
    // A port without a name is asked for by its number.
    const portName = name.slice(service.length + 1) || String(port);
    return { type: "service", ...splitKey(service), port: portName };
  }
  const keys = [...known.desired.services]
    .filter(([, ports]) => ports.flatMap(frontendsOf).some((each) => each.address === address))
    .map(([key]) => key);
  const [key, ...others] = keys.sort();
  if (destination) {
    const { port, protocol } = destination;
    const owner = key === undefined ? "" : `: ${address} is an address of ${keys.join(", ")}`;
    throw new FatalError(
      `no Service has ${hostPort(address, port)}/${protocol} on this node${owner}`,
    );
  }
  if (key === undefined) {
    const hint = known.ownAddresses.includes(address)
      ? ": it is an address of this node; add the node port, as IP:PORT"
      : "";
    throw new FatalError(`no Service has the address ${address} on this node${hint}`);
  }
  if (others.length > 0) {
    throw new FatalError(
      `${address} is an address of several Services: name one of ${keys.join(", ")}`,
    );
  }
  return { type: "service", ...splitKey(key), port: undefined };
}

/** Returns a packet to the cluster IP of a Service, of the source's IP family. */
function packetTo(
  { source, pod, service, protocol }: PacketToService,
  known: Known,
): PacketTarget {
  const target = serviceNamed(service, known);
  const key = objectKey(target);
  const all = askedPorts(target, known).filter((each) =>
    each.clusterIPs.length > 0 && (protocol === undefined || each.protocol === protocol)
  );
  const family = source === undefined ? all[0]?.family : familyOf(source);
  const [port, ...others] = all.filter((each) => each.family === family);
  const [address] = port?.clusterIPs ?? [];
  if (port === undefined || address === undefined) {
    const asked = target.port === undefined ? key : `${key}:${target.port}`;
    throw new FatalError(
      all.length > 0
        ? `${asked} has no cluster IP of the IP family of ${source}`
        : `no Service ${asked} has a cluster IP in the rules of this node.` +
          suggestService(target, [...known.cache.services.keys()].filter((each) => each !== key)),
    );
  }
  if (others.length > 0) {
    const ports = [port, ...others].map((each) => `${key}:${each.port}/${each.protocol}`);
    throw new FatalError(`Service ${key} has several ports: name one of ${ports.join(", ")}`);
  }
  const { namespace } = target;
  const sender = { source, pod: pod && { ...pod, namespace: pod.namespace ?? namespace } };
  return { type: "packet", ...sender, address, port: port.port, protocol: port.protocol };
}
