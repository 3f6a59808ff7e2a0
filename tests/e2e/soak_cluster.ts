/** A cluster that never rests: random Services and endpoints come, change and go. */
import type { Random } from "../support/random.ts";
import {
  ADDRESSES,
  type Addresses,
  type Manifest,
  service,
  slice,
  TARGET_PORT,
} from "./cluster.ts";
import type { Stage } from "./stage.ts";

/** Names of Services; each may or may not be there. */
const NAMES = 300;
/** Longer lists have an order that depends on what was before; see `toDestinations`. */
const MAX_ENDPOINTS = 20;
/** Objects that cannot be used, as something new or in the place of something good. */
const BROKEN_PERCENT = 2;

/** Changes one random thing at a time. */
export class RestlessCluster {
  readonly #stage: Stage;
  readonly #random: Random;
  /** Objects whose last good state signpost keeps, which no other program knows. */
  readonly #broken = new Set<string>();
  #changes = 0;

  constructor(stage: Stage, random: Random) {
    this.#stage = stage;
    this.#random = random;
  }

  /** How many changes there were. */
  get changes(): number {
    return this.#changes;
  }

  /** Removes what cannot be used, so that the state follows from the objects alone. */
  settle(): void {
    for (const name of this.#broken) {
      this.#stage.api.store.delete("Service", `shop/${name}`);
      this.#stage.api.store.delete("EndpointSlice", `shop/${name}-1`);
    }
  }

  /** Adds, changes or removes a Service, or changes its endpoints. */
  change(): void {
    this.#changes++;
    const number = this.#random(NAMES);
    const a = ADDRESSES[number % 2 === 0 ? 4 : 6];
    const name = `service-${number}`;
    const roll = this.#random(100);
    if (roll < 15) {
      this.#stage.api.store.delete("Service", `shop/${name}`);
    } else if (roll < 20) {
      this.#stage.api.store.delete("EndpointSlice", `shop/${name}-1`);
    } else if (roll < 40) {
      this.#stage.apply(this.#service(a, { name, number }));
    } else {
      this.#stage.apply(this.#slice(a, { name, number }));
    }
  }

  #service(a: Addresses, { name, number }: Numbered): Manifest {
    const type = ["ClusterIP", "NodePort", "LoadBalancer"][this.#random(3)] ?? "";
    const port = this.#isBroken(name) ? 70_000 : 80 + this.#random(2);
    const nodePort = type === "ClusterIP" ? {} : { nodePort: 30_000 + number };
    const isLocal = this.#random(3) === 0;
    // Some want the same address as another one.
    const shared = this.#random(10);
    const spec = {
      type,
      clusterIP: numbered(a.clusterIP, 100 + number),
      ports: [{ name: "tcp", protocol: "TCP", port, targetPort: TARGET_PORT, ...nodePort }],
      ...(shared === 0 && { externalIPs: [numbered(a.externalIP, 200 + number % 20)] }),
      ...(isLocal && type !== "ClusterIP" && { externalTrafficPolicy: "Local" }),
      ...(this.#random(5) === 0 && { internalTrafficPolicy: "Local" }),
      ...(this.#random(5) === 0 && { sessionAffinity: "ClientIP" }),
      ...(type === "LoadBalancer" && this.#random(2) === 0 &&
        { loadBalancerSourceRanges: [a.clientCIDR] }),
    };
    const ip = numbered(a.loadBalancer, 300 + number);
    return service(a, { name, spec, ...(type === "LoadBalancer" && { ingress: [{ ip }] }) });
  }

  #slice(a: Addresses, { name, number }: Numbered): Manifest {
    const whole = slice(a, [], { service: name });
    const count = this.#random(MAX_ENDPOINTS);
    const endpoints = Array.from({ length: count }, () => ({
      addresses: [numbered(a.pod, 1_000 + number * MAX_ENDPOINTS + this.#random(MAX_ENDPOINTS))],
      conditions: { ready: this.#random(5) > 0, terminating: this.#random(10) === 0 },
      nodeName: this.#random(3) === 0 ? "node1" : "node2",
    }));
    const broken = [{ addresses: ["nowhere"] }];
    return { ...whole, endpoints: this.#isBroken(name) ? broken : endpoints };
  }

  #isBroken(name: string): boolean {
    const isBroken = this.#random(100) < BROKEN_PERCENT;
    if (isBroken) this.#broken.add(name);
    return isBroken;
  }
}

interface Numbered {
  readonly name: string;
  readonly number: number;
}

/** Another address of the same range: its last 16 bits are the number. */
function numbered(address: string, number: number): string {
  if (address.includes(":")) return address.replace(/::[^:]*$/, `::${number.toString(16)}`);
  return address.replace(/\.\d+\.\d+$/, `.${number >> 8}.${number & 255}`);
}
