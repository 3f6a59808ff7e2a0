/** Decodes EndpointSlices (Kubernetes API, discovery.k8s.io/v1 EndpointSlice). */
import { type Family, familyOf, isUsableAddress } from "../../model/values/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "../../model/cluster/objects.ts";
import { compact } from "../../model/values/lists.ts";
import { CHANGE_TRIGGER, HEADLESS, MOST, SERVICE_NAME, SERVICE_PROXY_NAME } from "./tables.ts";
import type { DecodeContext, Raw } from "./read.ts";

type Hints = Pick<Endpoint, "zoneHints" | "nodeHints">;

const NONE: readonly string[] = compact([]);

/** Shared by all endpoints without hints. */
const NO_HINTS: Hints = { zoneHints: NONE, nodeHints: NONE };

/**
 * Decodes an EndpointSlice. Unusable list entries and hints are left out. @throws {MalformedError} if it cannot be used
 * @returns `undefined` for a slice without rules: of host names, of another proxy, of a headless Service or of none
 */
export function decodeEndpointSlice(raw: Raw, context: DecodeContext): EndpointSlice | undefined {
  const metadata = raw.at("metadata");
  const labels = metadata.at("labels");
  const serviceName = labels.at(SERVICE_NAME);
  const type = raw.at("addressType");
  const addressType = type.choice(["", "IPv4", "IPv6", "FQDN"]);
  if (addressType === "") throw type.malformed("must be IPv4 or IPv6 or FQDN", "missing");
  const isOther = [HEADLESS, SERVICE_PROXY_NAME].some((name) =>
    labels.at(name).value !== undefined
  );
  if (isOther || (serviceName.value ?? "") === "" || addressType === "FQDN") return undefined;

  const family = addressType === "IPv4" ? 4 : 6;
  return {
    namespace: context.namespace,
    name: context.name,
    serviceName: serviceName.name(),
    family,
    ports: readEndpointPorts(raw.at("ports"), context),
    endpoints: raw.at("endpoints").entries(
      (each) => readEndpoint(each, family, context.intern),
      MOST.endpoints,
    ),
    lastChangeTriggerTime: metadata.at("annotations").at(CHANGE_TRIGGER).time(),
  };
}

/** Reads the ports. As in kube-proxy, ports without a number (null means every port) are left out. */
function readEndpointPorts(
  raw: Raw,
  { intern, sharePorts }: DecodeContext,
): readonly EndpointPort[] {
  return sharePorts(raw.entries((entry) => {
    const port = entry.at("port");
    if (port.isAbsent) return undefined;
    return {
      name: intern(entry.at("name").optionalName()),
      protocol: entry.at("protocol").protocol(),
      port: port.port(),
    };
  }, MOST.ports));
}

function readEndpoint(raw: Raw, family: Family, intern: DecodeContext["intern"]): Endpoint {
  const conditions = raw.at("conditions");
  const hints = raw.at("hints").orOmit((each) => readHints(each, intern)) ?? NO_HINTS;
  const nodeName = raw.at("nodeName").optionalName();
  return {
    address: readEndpointAddress(raw.at("addresses"), family),
    nodeName: nodeName === "" ? undefined : intern(nodeName),
    // As the API says, an unknown condition counts as true, except `terminating`.
    ready: conditions.at("ready").boolean(true),
    serving: conditions.at("serving").boolean(true),
    terminating: conditions.at("terminating").boolean(false),
    zoneHints: hints.zoneHints,
    nodeHints: hints.nodeHints,
  };
}

/** Returns the first address. The API says that consumers may ignore the rest. */
function readEndpointAddress(raw: Raw, family: Family): string {
  const first = raw.entry(0);
  const address = first.address();
  if (familyOf(address) !== family) throw first.malformed(`must be an IPv${family} address`);
  if (!isUsableAddress(address)) {
    throw first.malformed(
      "must not be a loopback, link-local, unspecified, multicast or broadcast address",
    );
  }
  return address;
}

/** Reads the hints. A bad hint never removes the endpoint. */
function readHints(raw: Raw, intern: DecodeContext["intern"]): Hints {
  if (raw.isAbsent) return NO_HINTS;
  const readPlace = (hint: Raw) => intern(hint.at("name").topology());
  const places = (name: string) =>
    raw.at(name).orOmit((list) => list.entries(readPlace, MOST.hints)) ?? NONE;
  return { zoneHints: places("forZones"), nodeHints: places("forNodes") };
}
