/** Lays manifests over present objects, as `kubectl apply` would: what only the API server gives stays. */
import type { Service } from "../model/cluster/objects.ts";
import { fieldAt, isRecord, type Json } from "../model/values/record.ts";

/**
 * Adds to a manifest of a Service what the API server and its controllers gave to the present one: cluster IPs, node
 * ports, load-balancer addresses, age. What the manifest says itself counts.
 * @param raw the manifest, untrusted
 * @param present the Service of the same name, decoded; `undefined`: it would be new
 */
export function withAllocatedFields(raw: unknown, present: Service | undefined): unknown {
  if (!present || !isRecord(raw)) return raw;
  const { created, uid, clusterIPs, healthCheckNodePort, loadBalancerIPs } = present;
  const spec = objectAt(raw, "spec");
  const needsAddress = !spec["clusterIP"] && spec["type"] !== "ExternalName";
  const ports = spec["ports"];
  return {
    ...raw,
    // The age decides which Service has an address that two want.
    metadata: fill(objectAt(raw, "metadata"), {
      creationTimestamp: created > 0 && new Date(created).toISOString(),
      uid,
    }),
    spec: {
      ...fill(spec, { healthCheckNodePort }),
      ...needsAddress && { clusterIP: clusterIPs[0], clusterIPs },
      ...Array.isArray(ports) && { ports: ports.map((port) => withNodePort(port, present, spec)) },
    },
    ...spec["type"] === "LoadBalancer" && {
      status: fill(objectAt(raw, "status"), {
        loadBalancer: { ingress: loadBalancerIPs.map((ip) => ({ ip })) },
      }),
    },
  };
}

/** Gives a port without a node port the present one, if the type has node ports. */
function withNodePort(port: unknown, present: Service, spec: Json): unknown {
  const hasNodePorts = spec["type"] === "NodePort" || spec["type"] === "LoadBalancer";
  if (!isRecord(port) || !hasNodePorts) return port;
  const protocol = String(port["protocol"] ?? "TCP").toLowerCase();
  const same = present.ports.find((each) =>
    each.port === port["port"] && each.protocol === protocol
  );
  return fill(port, { nodePort: same?.nodePort });
}

/** Adds known fields that the object does not set. */
function fill(object: Json, fields: Json): Json {
  const added = Object.entries(fields).filter(([name, value]) =>
    value && [undefined, null, ""].includes(object[name] as string)
  );
  return { ...object, ...Object.fromEntries(added) };
}

function objectAt(value: unknown, key: string): Json {
  const found = fieldAt(value, key);
  return isRecord(found) ? found : {};
}
