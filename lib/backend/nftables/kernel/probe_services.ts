/**
 * Service ports that between them use every kind of rule, for the probe. Addresses are of the
 * documentation ranges (RFC 5737, RFC 3849).
 *
 * @module
 */
import { FAMILIES, type Family } from "../../../model/values/address.ts";
import type { DesiredServicePort } from "../../../model/kernel/desired.ts";

const PREFIX: Readonly<Record<Family, string>> = { 4: "192.0.2.", 6: "2001:db8::" };
const SOURCES: Readonly<Record<Family, string>> = { 4: "198.51.100.0/24", 6: "2001:db8:1::/64" };

/** Both families; policies Cluster and Local; random choice, session affinity and hashing. */
export const PROBE_SERVICES: readonly DesiredServicePort[] = FAMILIES.flatMap((family) => {
  const address = (last: number) => `${PREFIX[family]}${last}`;
  const cluster: DesiredServicePort = {
    name: "probe/cluster",
    family,
    protocol: "tcp",
    port: 80,
    clusterIPs: [address(1)],
    externalIPs: [address(2)],
    loadBalancerIPs: [address(3)],
    nodePort: 30080,
    sourceRanges: [SOURCES[family]],
    internalTrafficPolicy: "Cluster",
    externalTrafficPolicy: "Cluster",
    affinitySeconds: 0,
    clusterEndpoints: [{ address: address(4), port: 80, local: true, hairpin: true }],
    localEndpoints: [{ address: address(4), port: 80, local: true, hairpin: true }],
    hasEndpoints: true,
  };
  const local: DesiredServicePort = {
    ...cluster,
    name: "probe/local",
    protocol: "udp",
    externalTrafficPolicy: "Local",
  };
  const sticky: DesiredServicePort = {
    ...cluster,
    name: "probe/sticky",
    protocol: "sctp",
    affinitySeconds: 10_800,
  };
  const hashed: DesiredServicePort = {
    ...cluster,
    name: "probe/hashed",
    port: 82,
    nodePort: 30082,
    scheduler: { type: "consistent-hash", hash: "source-and-port", tableSize: 2 },
  };
  const empty: DesiredServicePort = {
    ...cluster,
    name: "probe/empty",
    port: 81,
    nodePort: 30081,
    clusterEndpoints: [],
    localEndpoints: [],
    hasEndpoints: false,
  };
  return [cluster, local, sticky, hashed, empty];
});
