/**
 * Warnings about settings that work, but not as anybody would want.
 *
 * @module
 */
import { cidrContains, FAMILIES, type Family } from "../model/address.ts";
import type { DesiredNode, StateChange } from "../model/desired.ts";
import type { Logger } from "../model/ports.ts";

/** What the advice is about. */
export interface AdviceOptions {
  readonly node: () => DesiredNode;
  /** The addresses of all network interfaces of the node: pods on the host's network have them. */
  readonly ownAddresses: () => readonly string[];
  readonly logger: Logger;
}

/**
 * Warns, once for each family, of pods of this node outside the range by which pods are told: their
 * traffic would be masqueraded, and dropped where a load balancer's policy is Local (k/k#112820).
 */
export class Advice {
  readonly #options: AdviceOptions;
  readonly #told = new Set<Family>();

  /** @param options what to look at, whom to tell */
  constructor(options: AdviceOptions) {
    this.#options = options;
  }

  /** Looks at what a sync has changed. */
  afterSync({ services }: StateChange): void {
    const { node, logger } = this.#options;
    for (const family of FAMILIES) {
      const { localDetector } = node().families[family];
      if (this.#told.has(family) || localDetector?.type !== "cidr") continue;
      const stray = this.#findStray(services, family, localDetector.cidr);
      if (stray === undefined) continue;
      this.#told.add(family);
      logger.warn(
        "a pod of this node has an address outside the range that pods are told by: set clusterCIDR (--cluster-cidr) to the range of all pods",
        { address: stray, range: localDetector.cidr },
      );
    }
  }

  #findStray(services: StateChange["services"], family: Family, cidr: string): string | undefined {
    let own: ReadonlySet<string> | undefined;
    for (const { after } of services.values()) {
      for (const port of after) {
        if (port.family !== family) continue;
        for (const { address, local } of port.clusterEndpoints) {
          if (!local || cidrContains(cidr, address)) continue;
          own ??= new Set(this.#options.ownAddresses());
          if (!own.has(address)) return address;
        }
      }
    }
    return undefined;
  }
}
