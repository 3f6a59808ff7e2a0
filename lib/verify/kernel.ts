/**
 * The desired state against what the kernel holds.
 *
 * @module
 */
import { findIptables } from "../backend/iptables/kernel/backend.ts";
import { compareSaved } from "../backend/iptables/kernel/compare.ts";
import { IptablesDataplane } from "../backend/iptables/dataplane.ts";
import { fullInput } from "../backend/iptables/script/full.ts";
import type { FamilyInput } from "../backend/iptables/script/ruleset.ts";
import type { DesiredServicePort, DesiredState } from "../model/kernel/desired.ts";
import type { Logger, ProcessRunner } from "../model/ports/ports.ts";
import type { Difference, ServiceDifference } from "../model/kernel/verification.ts";
import { compareContents } from "../backend/nftables/kernel/compare.ts";
import {
  type Contents,
  desiredContents,
  parseListing,
} from "../backend/nftables/kernel/contents.ts";
import { Nft } from "../backend/nftables/kernel/nft.ts";
import { TABLE } from "../backend/nftables/script/objects.ts";
import { frontendsOf } from "../policy/frontend.ts";
import { frontendId, frontendIdOf } from "./diff/frontends.ts";
import { HandOver } from "../backend/take_over.ts";

/** What the kernel is read with. */
export interface KernelOptions {
  readonly mode: "nftables" | "iptables";
  readonly runner: ProcessRunner;
  readonly logger: Logger;
}

/** What the kernel says. */
export interface Comparison {
  readonly differences: readonly ServiceDifference[];
  /** Elements and rules of the desired state. */
  readonly compared: number;
  /** Rules of other proxies, in words. */
  readonly otherProxies: readonly string[];
}

/**
 * Compares the kernel of this network namespace.
 *
 * @throws {ApplyError} where the kernel cannot be read
 */
export function compareKernel(state: DesiredState, options: KernelOptions): Promise<Comparison> {
  return options.mode === "nftables"
    ? compareNftables(state, options)
    : compareIptables(state, options);
}

async function compareNftables(
  state: DesiredState,
  { runner, logger }: KernelOptions,
): Promise<Comparison> {
  const desired = desiredContents(state);
  const held = parseListing(await new Nft(runner).listTable());
  const differences = held ? compareContents(desired, held) : [NO_TABLE];
  const others = new HandOver({ mode: "nftables", backend: undefined, runner, logger });
  const owner = new Owners(state);
  return {
    differences: differences.map((each) => ({ ...each, service: owner.ofElement(each) })),
    compared: countContents(desired),
    otherProxies: await others.findProxy(),
  };
}

const NO_TABLE: Difference = {
  type: "missing",
  in: `table ${TABLE}`,
  key: "",
  desired: "",
  held: "",
};

async function compareIptables(
  state: DesiredState,
  { runner, logger }: KernelOptions,
): Promise<Comparison> {
  const iptables = await findIptables(runner, state.node.ipFamilies);
  const { backend, families, abilities } = iptables;
  const dataplane = new IptablesDataplane({
    runner,
    iptables,
    routeLocalnet: () => Promise.reject(new Error("only looking")),
  });
  const differences: Difference[] = [];
  const inputs: FamilyInput[] = [];
  for (const family of families) {
    const input = fullInput(state, { family, abilities });
    inputs.push(input);
    differences.push(...compareSaved(input, await dataplane.saved(family)));
  }
  const others = new HandOver({ mode: "iptables", backend, runner, logger });
  const owner = new Owners(state);
  return {
    differences: differences.map((each) => ({ ...each, service: owner.ofRule(each) })),
    compared: inputs.reduce((sum, input) => sum + countRules(input), 0),
    otherProxies: await others.findProxy(),
  };
}

function countContents({ sets, chains }: Contents): number {
  let count = 0;
  for (const elements of sets.values()) count += elements.size;
  for (const rules of chains.values()) count += rules.length;
  return count;
}

function countRules({ tables }: FamilyInput): number {
  let count = 0;
  for (const { chains, inserted } of tables) {
    count += inserted.length;
    for (const rules of chains.values()) count += rules.length;
  }
  return count;
}

/** Whom an address or port belongs to. */
class Owners {
  readonly #byFrontend = new Map<string, string>();
  readonly #names = new Set<string>();

  constructor(state: DesiredState) {
    for (const ports of state.services.values()) {
      for (const port of ports) this.#add(port);
    }
  }

  #add(port: DesiredServicePort): void {
    this.#names.add(port.name);
    for (const frontend of frontendsOf(port)) {
      this.#byFrontend.set(frontendId(port, frontend), port.name);
    }
  }

  /** By the frontend in an element's key. */
  ofElement({ in: set, key }: Difference): string {
    return this.#byFrontend.get(frontendIdOf(set, key) ?? "") ?? "";
  }

  /** By the rule's comment, which begins with the service port's name. */
  ofRule({ key, desired, held }: Difference): string {
    for (const [, comment = ""] of `${key} ${desired} ${held}`.matchAll(/--comment "?([^" ]+)/g)) {
      if (this.#names.has(comment)) return comment;
    }
    return "";
  }
}
