/**
 * Warnings about settings that work, but not as they were meant.
 *
 * @module
 */
import { inEffect } from "../../config/configz.ts";
import { familyProblems, nodePortProblems } from "../../config/checks/families.ts";
import type { ObjectCache } from "../../cache/cache.ts";
import type { Configuration } from "../../model/configuration.ts";
import { lacksNodeAddress } from "../../policy/node.ts";
import { cidrTest, type Family, familyOf, isSpecialAddress } from "../../model/values/address.ts";
import { needsOf } from "../../model/cluster/scheduler.ts";
import type { DesiredNode, DesiredServicePort, StateChange } from "../../model/kernel/desired.ts";
import type { ModeTraits } from "../../model/kernel/traits.ts";
import type { Logger } from "../../model/ports/ports.ts";

/** For a node whose name may be wrong, or whose Node has yet to come. */
export const NO_NODE_ADDRESS =
  "no address of this node is known, so node ports answer on all its addresses: see that there is a Node of this name (--hostname-override), or set nodePortAddresses (--nodeport-addresses)";

/** What the advice is about. */
export interface AdviceOptions {
  readonly node: () => DesiredNode;
  /** The addresses of all network interfaces of the node: pods on the host's network have them. */
  readonly ownAddresses: () => readonly string[];
  readonly cache: Pick<ObjectCache, "complete" | "node">;
  readonly configuration: Configuration;
  readonly traits: ModeTraits;
  readonly nodeName: string;
  readonly logger: Logger;
}

/**
 * Warns, once, of a node without a known address and of connections that routers may move, and, once for each family, of pods of this node outside the range by which pods are told: their
 * traffic would be masqueraded, and dropped where a load balancer's policy is Local (k/k#112820).
 */
export class Advice {
  readonly #told = new Set<Family>();
  #toldOfAddress = false;
  #toldOfFamilies = false;
  #toldOfMoves = false;

  /** @param options what to look at, whom to tell */
  constructor(private readonly options: AdviceOptions) {}

  /**
   * Looks at what a sync has changed.
   *
   * @yields where other work can be done
   */
  *advising({ services, node }: StateChange): Generator<undefined, void> {
    this.#adviseOnAddress();
    this.#adviseOnFamilies();
    const ranges = { 4: this.#rangeOf(4), 6: this.#rangeOf(6) };
    let weight = 0;
    for (const { before, after } of services.values()) {
      // What stays as it was has been looked at, unless the range is another one.
      if (before === after && !node) continue;
      for (const port of after) {
        this.#adviseOnMoves(port);
        this.#adviseOnStray(port, ranges[port.family]);
        weight += 1 + port.clusterEndpoints.length / 10;
      }
      if (weight < BATCH) continue;
      yield;
      weight = 0;
    }
  }

  #adviseOnAddress(): void {
    const { cache, logger, nodeName, ...inputs } = this.options;
    if (this.#toldOfAddress || !cache.complete) return;
    if (!lacksNodeAddress({ ...inputs, node: cache.node })) return;
    this.#toldOfAddress = true;
    logger.warn(NO_NODE_ADDRESS, { node: nodeName });
  }

  /** What kube-proxy checks when it starts; it ends where a problem is fatal, signpost never does. */
  #adviseOnFamilies(): void {
    const { cache, configuration, traits, node, logger } = this.options;
    if (this.#toldOfFamilies || !cache.complete) return;
    this.#toldOfFamilies = true;
    const { bindAddress } = configuration;
    const own = isSpecialAddress(bindAddress) ? cache.node?.addresses[0] : bindAddress;
    const inputs = {
      configuration: inEffect(configuration, traits),
      primary: familyOf(own ?? bindAddress),
      podCIDRs: cache.node?.podCIDRs ?? [],
      dualStack: node().ipFamilies.length > 1,
    };
    for (const { message, fatal } of [...nodePortProblems(inputs), ...familyProblems(inputs)]) {
      if (fatal) logger.error(message);
      else logger.warn(message);
    }
  }

  /** A hash is for routers that move flows; conntrack refuses what comes back after others have gone on. */
  #adviseOnMoves(port: DesiredServicePort): void {
    const { configuration, logger } = this.options;
    if (this.#toldOfMoves || configuration.conntrack.tcpBeLiberal) return;
    const isMoving = needsOf(port.scheduler).hash && port.protocol === "tcp" &&
      port.loadBalancerIPs.length + port.externalIPs.length > 0;
    if (!isMoving) return;
    this.#toldOfMoves = true;
    logger.warn(
      "a Service with external addresses is spread by a hash: where routers move TCP connections between nodes, set conntrack.tcpBeLiberal (--conntrack-tcp-be-liberal), or those that come back are invalid",
      { servicePort: port.name },
    );
  }

  /** The range by which pods of this node are detected; `undefined`: by something else. */
  #rangeOf(family: Family): Range | undefined {
    const { localDetector } = this.options.node().families[family];
    if (localDetector?.type !== "cidr") return undefined;
    const { cidr } = localDetector;
    const contains = cidrTest(cidr);
    let own: ReadonlySet<string> | undefined;
    const isOwn = (address: string) => {
      own ??= new Set(this.options.ownAddresses());
      return own.has(address);
    };
    return { cidr, isStray: (address) => !contains(address) && !isOwn(address) };
  }

  #adviseOnStray({ family, clusterEndpoints }: DesiredServicePort, range: Range | undefined): void {
    if (this.#told.has(family) || !range) return;
    for (const { address, local } of clusterEndpoints) {
      if (!local || !range.isStray(address)) continue;
      this.#told.add(family);
      this.options.logger.warn(
        "a pod of this node has an address outside the range by which pods are detected: set clusterCIDR (--cluster-cidr) to the range of all pods",
        { address, range: range.cidr },
      );
      return;
    }
  }
}

/** Service ports that are looked at at one go, and ten times as many endpoints. */
const BATCH = 100;

interface Range {
  readonly cidr: string;
  /** Whether an address of a pod is outside the range, and not the node's. */
  readonly isStray: (address: string) => boolean;
}
