/** Decodes EndpointSlices (Kubernetes API, discovery.k8s.io/v1 EndpointSlice). */
import { type Family, familyOf, isSpecialAddress } from "../../model/values/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "../../model/cluster/objects.ts";
import {
  type ENDPOINT_SLICE,
  type Field,
  HEADLESS,
  type ListField,
  type Raw,
  SERVICE_PROXY_NAME,
  type Unread,
} from "./tables.ts";
import {
  type DecodeContext,
  MalformedError,
  type Metadata,
  readAddress,
  readArray,
  readBoolean,
  readChoice,
  readEntries,
  readName,
  readObject,
  readOptionalName,
  readOrOmit,
  readPlace,
  readPort,
  readProtocol,
  readTime,
} from "./read.ts";

export const SERVICE_NAME = "kubernetes.io/service-name";

/** The annotation with the time of the Pod change that caused a slice's update. */
export const CHANGE_TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time";

type EndpointFields = (typeof ENDPOINT_SLICE)["endpoints"]["value"];
type EndpointHints = Unread<EndpointFields["hints"]>;
type PlaceFields = EndpointFields["hints"]["value"]["forZones"]["value"];

/** Shared by all endpoints without a hint. */
const NO_HINTS: readonly string[] = [];

/**
 * Decodes an EndpointSlice. Unusable list entries and hints are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a slice without rules: of host names, of another proxy, of a headless Service or of none
 */
export function decodeEndpointSlice(
  raw: Raw<typeof ENDPOINT_SLICE>,
  metadata: Metadata,
  context: DecodeContext,
): EndpointSlice | undefined {
  const { intern, omissions } = context;
  const serviceName = metadata.labels[SERVICE_NAME] ?? "";
  const headless = metadata.labels[HEADLESS] !== undefined;
  const otherProxy = metadata.labels[SERVICE_PROXY_NAME] !== undefined;
  const types = ["IPv4", "IPv6", "FQDN"] as const;
  const addressType = readChoice(raw.addressType || "missing", "addressType", types);
  if (serviceName === "" || headless || otherProxy || addressType === "FQDN") return undefined;

  const family = addressType === "IPv4" ? 4 : 6;
  return {
    namespace: intern(metadata.namespace),
    name: metadata.name,
    serviceName: readName(serviceName, `metadata.labels["${SERVICE_NAME}"]`),
    family,
    ports: readEndpointPorts(raw, context),
    endpoints: readEntries(raw.endpoints, "endpoints", {
      omissions,
      read: (value, path) => readEndpoint(value, { ...context, path, family }),
    }),
    lastChangeTriggerTime: readTime(metadata.annotations[CHANGE_TRIGGER]),
  };
}

/** Reads the ports. As in kube-proxy, ports without a number (null means every port) are left out. */
function readEndpointPorts(
  raw: Raw<typeof ENDPOINT_SLICE>,
  { intern, shareEndpointPorts, omissions }: DecodeContext,
): readonly EndpointPort[] {
  return shareEndpointPorts(readEntries(raw.ports, "ports", {
    omissions,
    read: (value, path): EndpointPort | undefined => {
      const port = readObject(value, path);
      if (port.port === undefined || port.port === null) return undefined;
      return {
        name: intern(readOptionalName(port.name, `${path}.name`)),
        protocol: readProtocol(port.protocol, `${path}.protocol`),
        port: readPort(port.port, `${path}.port`),
      };
    },
  }));
}

interface EndpointContext extends DecodeContext {
  readonly path: string;
  readonly family: Family;
}

function readEndpoint(value: Unread<Field<EndpointFields>>, context: EndpointContext): Endpoint {
  const { path, family, intern } = context;
  const endpoint = readObject(value, path);
  const conditions = readObject(endpoint.conditions, `${path}.conditions`);
  const hints = readHints(endpoint.hints, context);
  const nodeName = readOptionalName(endpoint.nodeName, `${path}.nodeName`);
  return {
    address: readEndpointAddress(endpoint, path, family),
    nodeName: nodeName === "" ? undefined : intern(nodeName),
    ready: readCondition(conditions, "ready", path),
    serving: readCondition(conditions, "serving", path),
    terminating: readCondition(conditions, "terminating", path),
    zoneHints: hints.zoneHints,
    nodeHints: hints.nodeHints,
  };
}

type Conditions = EndpointFields["conditions"]["value"];

/** Reads a condition. As the API says, an unknown one counts as true, except `terminating`. */
function readCondition(conditions: Raw<Conditions>, name: keyof Conditions, path: string): boolean {
  const value: unknown = conditions[name];
  // The common case. Building the path text would cost more than the rest.
  if (typeof value === "boolean") return value;
  return readBoolean(value, `${path}.conditions.${name}`, name !== "terminating");
}

/** Returns the first address. The API says that consumers may ignore the rest. */
function readEndpointAddress(endpoint: Raw<EndpointFields>, path: string, family: Family): string {
  const place = `${path}.addresses[0]`;
  const first = readArray(endpoint.addresses, `${path}.addresses`)[0];
  const address = readAddress(first, place);
  if (familyOf(address) !== family) {
    throw new MalformedError(place, `must be an IPv${family} address`, first);
  }
  if (isSpecialAddress(address)) {
    const rule = "must not be a loopback, link-local or unspecified address";
    throw new MalformedError(place, rule, first);
  }
  return address;
}

interface Hints {
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
}

/** Shared by all endpoints without hints. */
const WITHOUT_HINTS: Hints = { zoneHints: NO_HINTS, nodeHints: NO_HINTS };

/** Reads the hints. A bad hint never removes the endpoint. */
function readHints(value: EndpointHints | undefined, context: EndpointContext): Hints {
  if (value === undefined || value === null) return WITHOUT_HINTS;
  const path = `${context.path}.hints`;
  const hints = readOrOmit(() => readObject(value, path), context.omissions) ?? {};
  return {
    zoneHints: readPlaces(hints.forZones, `${path}.forZones`, context),
    nodeHints: readPlaces(hints.forNodes, `${path}.forNodes`, context),
  };
}

function readPlaces(
  value: Unread<ListField<PlaceFields>> | undefined,
  path: string,
  { intern, omissions }: EndpointContext,
): readonly string[] {
  const read = (hint: Unread<Field<PlaceFields>>, place: string) =>
    intern(readPlace(readObject(hint, place).name, `${place}.name`));
  const places = readOrOmit(() => readEntries(value, path, { omissions, read }), omissions);
  return places === undefined || places.length === 0 ? NO_HINTS : places;
}
