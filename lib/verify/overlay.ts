/**
 * Lays manifests over present objects, as `kubectl apply` would: what only the API server gives (cluster IPs, node
 * ports, load-balancer addresses) stays.
 */
import type { Service } from "../model/cluster/objects.ts";
import { fieldAt, isRecord, type Json } from "../model/values/record.ts";

/**
 * Adds to a manifest of a Service what the API server and its controllers gave to the present one. What the
 * manifest says itself counts.
 * @param raw the manifest, untrusted
 * @param present the Service of the same name, decoded; `undefined`: it would be new
 */
export function withAllocatedFields(raw: unknown, present: Service | undefined): unknown {
  const spec = objectAt(raw, "spec");
  if (!present || !isRecord(raw)) return raw;
  const isHeadless = spec["clusterIP"] === "None" || spec["type"] === "ExternalName";
  return {
    ...raw,
    spec: {
      ...spec,
      ...!isHeadless && !isSet(spec["clusterIP"]) && {
        clusterIP: present.clusterIPs[0],
        clusterIPs: present.clusterIPs,
      },
      ...Array.isArray(spec["ports"]) && {
        ports: spec["ports"].map((port: unknown) => withNodePort(port, present, spec)),
      },
      ...present.healthCheckNodePort !== 0 && !isSet(spec["healthCheckNodePort"]) && {
        healthCheckNodePort: present.healthCheckNodePort,
      },
    },
    ...!isSet(objectAt(raw, "status")["loadBalancer"]) && spec["type"] === "LoadBalancer" && {
      status: {
        loadBalancer: { ingress: present.loadBalancerIPs.map((ip) => ({ ip })) },
      },
    },
    metadata: withAge(objectAt(raw, "metadata"), present),
  };
}

/** Gives a port without a node port the present one, if the type has node ports. */
function withNodePort(port: unknown, present: Service, spec: Json): unknown {
  const hasNodePorts = spec["type"] === "NodePort" || spec["type"] === "LoadBalancer";
  if (!isRecord(port) || !hasNodePorts || isSet(port["nodePort"])) return port;
  const protocol = String(port["protocol"] ?? "TCP").toLowerCase();
  const same = present.ports.find((each) =>
    each.port === port["port"] && each.protocol === protocol
  );
  return same && same.nodePort !== 0 ? { ...port, nodePort: same.nodePort } : port;
}

/** Keeps the age: it decides who has an address that two Services want. */
function withAge(metadata: Json, { created, uid }: Service): Json {
  return {
    ...metadata,
    ...!isSet(metadata["creationTimestamp"]) && created > 0 && {
      creationTimestamp: new Date(created).toISOString(),
    },
    ...!isSet(metadata["uid"]) && uid !== "" && { uid },
  };
}

function isSet(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}

function objectAt(value: unknown, key: string): Json {
  const found = fieldAt(value, key);
  return isRecord(found) ? found : {};
}
