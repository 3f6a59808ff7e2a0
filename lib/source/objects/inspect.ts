/** Reads facts of objects that the model does not keep, for `explain`. */
import { plain } from "../../model/values/text.ts";
import { parseAddress } from "../../model/values/address.ts";
import { objectKey } from "../../model/cluster/names.ts";
import type { Kind } from "../../model/cluster/objects.ts";
import { fieldAt, isRecord } from "../../model/values/record.ts";
import { HEADLESS, SERVICE_NAME, SERVICE_PROXY_NAME } from "./tables.ts";

/** The most characters of a pod's name. The API server does not check it in a slice. */
const LONGEST_NAME = 253;

/** The facts of a Service, as far as they can be read. */
export interface ServiceFacts {
  readonly type: string;
  readonly clusterIP: string;
  /** `app=web,tier=front`; `""` without a selector. */
  readonly selector: string;
  /** By port name. */
  readonly targetPorts: ReadonlyMap<string, string>;
  /** The label `service.kubernetes.io/service-proxy-name`. An empty one counts, too. */
  readonly otherProxy: string | undefined;
}

export interface SliceFacts {
  /** `namespace/name`. */
  readonly slice: string;
  readonly endpoints: number;
  /** The reason why it is not used for rules; `""` if it is used, or refused. */
  readonly reason: string;
}

/** The facts of a Service and its slices. */
export interface Inspected {
  /** `undefined` if the source does not have it. */
  readonly service: ServiceFacts | undefined;
  readonly slices: readonly SliceFacts[];
}

/** Reads the Services of one name, in all namespaces. */
export class Inspector {
  readonly #services = new Map<string, ServiceFacts>();
  readonly #slices = new Map<string, SliceFacts>();

  constructor(private readonly name: string) {}

  in(namespace: string): Inspected {
    return {
      service: this.#services.get(namespace),
      slices: [...this.#slices.values()].filter(({ slice }) => slice.startsWith(`${namespace}/`))
        .sort((a, b) => a.slice < b.slice ? -1 : 1),
    };
  }

  /** Reads one object. Malformed fields count as empty. */
  look(kind: Kind, raw: unknown): void {
    const metadata = fieldAt(raw, "metadata");
    const namespace = text(fieldAt(metadata, "namespace")) || "default";
    const name = text(fieldAt(metadata, "name"));
    const labels = fieldAt(metadata, "labels");
    if (kind === "Service" && name === this.name) this.#services.set(namespace, serviceFacts(raw));
    if (kind !== "EndpointSlice" || text(fieldAt(labels, SERVICE_NAME)) !== this.name) return;
    const slice = objectKey({ namespace, name });
    const endpoints = list(fieldAt(raw, "endpoints")).length;
    this.#slices.set(slice, { slice, endpoints, reason: ignoredBecause(raw, labels) });
  }
}

/** Reads a Service. Malformed fields count as empty. */
export function serviceFacts(raw: unknown): ServiceFacts {
  const otherProxy = fieldAt(raw, "metadata", "labels", SERVICE_PROXY_NAME);
  const spec = fieldAt(raw, "spec");
  const selector = fieldAt(spec, "selector");
  return {
    type: text(fieldAt(spec, "type")) || "ClusterIP",
    clusterIP: text(fieldAt(spec, "clusterIP")),
    selector: Object.entries(isRecord(selector) ? selector : {})
      .map(([key, value]) => `${plain(key)}=${text(value)}`).join(),
    targetPorts: new Map(
      list(fieldAt(spec, "ports")).map((port) => [
        text(fieldAt(port, "name")),
        text(fieldAt(port, "targetPort")) || text(fieldAt(port, "port")),
      ]),
    ),
    otherProxy: otherProxy === undefined ? undefined : text(otherProxy),
  };
}

/** A pod that is an endpoint of a Service, by one of its addresses. */
export interface EndpointPod {
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  readonly address: string;
}

/** Lists the pods of a slice. Malformed fields count as empty. */
export function endpointPods(raw: unknown): EndpointPod[] {
  const namespace = text(fieldAt(raw, "metadata", "namespace")) || "default";
  const service = text(fieldAt(raw, "metadata", "labels", SERVICE_NAME));
  return list(fieldAt(raw, "endpoints"))
    .filter((each) => fieldAt(each, "targetRef", "kind") === "Pod")
    .flatMap((each) => {
      const name = text(fieldAt(each, "targetRef", "name")).slice(0, LONGEST_NAME);
      return list(fieldAt(each, "addresses")).flatMap((each) => parseAddress(text(each)) ?? [])
        .map((address) => ({ namespace, name, service, address }));
    });
}

function ignoredBecause(raw: unknown, labels: unknown): string {
  if (fieldAt(raw, "addressType") === "FQDN") {
    return "its endpoints are host names (addressType FQDN)";
  }
  const label = [HEADLESS, SERVICE_PROXY_NAME].find((name) => fieldAt(labels, name) !== undefined);
  return label === undefined ? "" : `it has the label ${label}`;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns printable text: reports go to terminals. */
function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? plain(String(value)) : "";
}
