/**
 * The daemon's life in a machine: start, drift, restart, cleanup; each judged by packets.
 *
 * @module
 */
import { assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import type { Family } from "../../lib/model/values/address.ts";
import { createCluster, type InputFiles, writeInput } from "../../tests/e2e/case.ts";
import { assertFlows, type Flow } from "../../tests/e2e/flow.ts";
import { CommandError } from "../../tests/support/command.ts";
import { FOREIGN_TABLE } from "../../tests/support/foreign_table.ts";
import { httpGet } from "../../tests/support/http.ts";
import type { Network } from "../../tests/support/network.ts";
import { runSignpost, Signpost } from "../../tests/support/signpost.ts";
import { NODE } from "../../tests/support/topology.ts";
import { flowsWith, flowsWithout, guestConfiguration, guestObjects } from "./guest_cluster.ts";
import type { Plan } from "./guest.ts";
import type { Backend, LifePart } from "./steps.ts";

/** Milliseconds. A machine by emulation is slow, and slower beside other work. */
const DEADLINE = 600_000;
const PATIENCE = 20_000;

/** The commands by which another program removes rules. */
const DAMAGE: Readonly<Record<Backend, string>> = {
  nftables: "nft flush chain inet signpost services",
  iptables: "iptables -t nat -F; iptables -t nat -X",
  "iptables-legacy": "iptables-legacy -t nat -F; iptables-legacy -t nat -X",
};

/** Prints what is left of our rules. */
const LEFT: Readonly<Record<Backend, string>> = {
  nftables: "nft list tables | grep signpost || true",
  iptables: "(iptables-save; ip6tables-save 2>/dev/null) | grep -e ' KUBE-' -e ^:KUBE- || true",
  "iptables-legacy":
    "(iptables-legacy-save; ip6tables-legacy-save 2>/dev/null) | grep -e ^:KUBE- | " +
    "grep -v KUBE-IPTABLES-HINT || true",
};

/** Runs the daemon in a network of its own, part after part, in the order of `LIFE_PARTS`. */
export class DaemonLife implements AsyncDisposable {
  readonly #backend: Backend;
  readonly #network: Network;
  readonly #input: InputFiles;
  readonly #families: readonly Family[];
  readonly #flows: { readonly [name in "present" | "absent"]: readonly Flow[] };
  readonly #resources: AsyncDisposableStack;
  #daemon: Signpost | undefined;

  private constructor(backend: Backend, parts: {
    readonly network: Network;
    readonly input: InputFiles;
    readonly families: readonly Family[];
    readonly resources: AsyncDisposableStack;
  }) {
    this.#backend = backend;
    this.#network = parts.network;
    this.#input = parts.input;
    this.#families = parts.families;
    this.#flows = { present: flowsWith(parts.families), absent: flowsWithout(parts.families) };
    this.#resources = parts.resources;
  }

  /** Makes the network; the daemon starts with the first part. */
  static async create(
    backend: Backend,
    { families, foreignNft }: Pick<Plan, "families" | "foreignNft">,
  ): Promise<DaemonLife> {
    await using resources = new AsyncDisposableStack();
    const network = resources.use(await createCluster());
    const config = { ...guestConfiguration(backend), ...foreignNft && { mode: "" } };
    const input = resources.use(await writeInput({ objects: guestObjects(), config }));
    if (foreignNft) await network.run(NODE, [foreignNft, "-f", "-"], { stdin: FOREIGN_TABLE });
    if (backend === "iptables-legacy") {
      // kubelet's chain tells which backend a node uses.
      const hint = ["iptables-legacy", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"];
      await network.run(NODE, hint);
      if (families.includes(6)) await network.run(NODE, ["ip6tables-legacy", ...hint.slice(1)]);
    }
    const all = resources.move();
    const life = new DaemonLife(backend, { network, input, families, resources: all });
    all.defer(async () => {
      await life.#daemon?.stop();
    });
    return life;
  }

  /** Runs one part. @throws {Error} if the rules or the packets are wrong */
  run(part: LifePart): Promise<void> {
    switch (part) {
      case "start":
        return this.#start();
      case "drift":
        return this.#drift();
      case "restart":
        return this.#restart();
      case "cleanup":
        return this.#cleanUp();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }

  async #start(): Promise<void> {
    const { config, manifests } = this.#input;
    const args = [
      "--config",
      config,
      "--manifests",
      manifests,
      "--state-file=",
      "--socket=",
      "-v2",
    ];
    const daemon = this.#daemon = Signpost.start(this.#network, args);
    await daemon.until("the first sync", () => /\bfull\b/.test(daemon.log), DEADLINE);
    await this.#flowsBecome(daemon);
    if (!this.#families.includes(6)) await this.#assertNoIpv6(daemon);
  }

  /** No rule, one line in the log, and a reason in the health answer. */
  async #assertNoIpv6(daemon: Signpost): Promise<void> {
    assertEquals(daemon.log.match(/no IPv6 rules/g)?.length, 1, daemon.log);
    const health = { from: NODE, source: "127.0.0.1", address: "127.0.0.1", port: 10_256 };
    const { body } = await httpGet(this.#network, { ...health, path: "/healthz" });
    assertMatch(body, /this node has no IPv6/);
    if (this.#backend !== "nftables") return;
    const table = await this.#network.run(NODE, ["nft", "list", "table", "inet", "signpost"]);
    assertNotMatch(table, /\bip6 |\bipv6_addr\b/);
  }

  async #drift(): Promise<void> {
    const daemon = this.#running();
    const said = daemon.log.length;
    await this.#network.run(NODE, ["sh", "-ec", DAMAGE[this.#backend]]);
    const isSaid = () => daemon.log.slice(said).includes("another program");
    await daemon.until("a line about the damage", isSaid, DEADLINE);
    await this.#flowsBecome(daemon);
  }

  /** The rules stay while no daemon runs, and connections live on. */
  async #restart(): Promise<void> {
    const address = this.#flows.present[0]?.to ?? "";
    const open = await this.#network.stay({ from: "pod", address, port: 80, timeout: PATIENCE });
    await this.#running().stop();
    await assertFlows(this.#network, this.#flows.present, { patience: PATIENCE });
    await this.#start();
    const echo = await open.exchange("still there?");
    open.close();
    if (echo !== "still there?") throw new Error(`an open connection answered ${echo}`);
  }

  async #cleanUp(): Promise<void> {
    await this.#running().stop();
    this.#daemon = undefined;
    const result = await runSignpost(this.#network, ["cleanup"]);
    if (result.code !== 0) throw new CommandError(["signpost", "cleanup"], result);
    const left = await this.#network.run(NODE, ["sh", "-c", LEFT[this.#backend]]);
    if (left.trim() !== "") throw new Error(`left after cleanup: ${left.trim()}`);
    await this.#network.flushConntrack();
    await assertFlows(this.#network, this.#flows.absent);
  }

  #running(): Signpost {
    if (this.#daemon === undefined) throw new Error("the daemon did not start");
    return this.#daemon;
  }

  async #flowsBecome(daemon: Signpost): Promise<void> {
    await daemon.until("traffic flows as it should", async () => {
      await assertFlows(this.#network, this.#flows.present, { patience: PATIENCE });
      return true;
    }, DEADLINE);
  }
}
