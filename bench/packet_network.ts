/**
 * A client pod, a node and backends in namespaces of their own, for one set of rules.
 *
 * @module
 */
import { run } from "../tests/support/command.ts";
import { Libc } from "../tests/support/libc.ts";
import { FORWARDING, Namespaces } from "../tests/support/namespaces.ts";
import { clusterIP, initialAddresses, SERVICE_PORT, TARGET_PORT } from "./cluster.ts";
import type { Round } from "./packet_client.ts";

const CLIENT = "10.191.0.2";
const GATE = "169.254.7.1";

/** A small network whose node has the rules under measurement. */
export class PacketNetwork implements AsyncDisposable {
  readonly #namespaces: Namespaces;
  readonly #resources: AsyncDisposableStack;

  private constructor(namespaces: Namespaces, resources: AsyncDisposableStack) {
    this.#namespaces = namespaces;
    this.#resources = resources;
  }

  /** Sets it up; all endpoints of service 0 are there. */
  static async create(endpoints: number): Promise<PacketNetwork> {
    await using resources = new AsyncDisposableStack();
    const libc = resources.use(new Libc());
    const namespaces = resources.use(await Namespaces.create(libc, ["node", "client", "backend"]));
    namespaces.setSysctls("node", FORWARDING);
    namespaces.setSysctls("client", { "ipv4/ip_local_port_range": "1024 65535" });
    const addresses = initialAddresses(0, endpoints);
    await namespaces.ip("node", [
      "link set lo up",
      ...nodeLink("client", namespaces.fullName("client"), [CLIENT]),
      ...nodeLink("backend", namespaces.fullName("backend"), addresses),
    ]);
    await namespaces.ip("client", hostLink([CLIENT]));
    await namespaces.ip("backend", hostLink(addresses));
    resources.use(await startServer(namespaces.fullName("backend")));
    return new PacketNetwork(namespaces, resources.move());
  }

  /** Loads a script into the node. */
  async load(path: string): Promise<void> {
    await this.inNode(["nft", "-f", path]);
  }

  /** Runs a program in the node. */
  async inNode(argv: readonly string[]): Promise<string> {
    return await run(["ip", "netns", "exec", this.#namespaces.fullName("node"), ...argv]);
  }

  /** Connects for a time to service 0, or past all rules to its first endpoint. */
  async connect(to: "vip" | "endpoint", milliseconds: number): Promise<Round> {
    await run(["ip", "netns", "exec", this.#namespaces.fullName("node"), "conntrack", "-F"]);
    const [address = "", port] = to === "vip"
      ? [clusterIP(0), SERVICE_PORT]
      : [initialAddresses(0, 1)[0], TARGET_PORT];
    const program = new URL("packet_client.ts", import.meta.url).pathname;
    const argv = [Deno.execPath(), "run", "--quiet", "-A", program];
    const client = this.#namespaces.fullName("client");
    const args = [address, `${port}`, `${milliseconds}`];
    return JSON.parse(await run(["ip", "netns", "exec", client, ...argv, ...args]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

function nodeLink(link: string, peer: string, addresses: readonly string[]): string[] {
  return [
    `link add ${link} type veth peer name eth0 netns ${peer}`,
    `addr add ${GATE}/32 dev ${link}`,
    `link set ${link} up`,
    ...addresses.map((address) => `route add ${address} dev ${link}`),
  ];
}

function hostLink(addresses: readonly string[]): string[] {
  return [
    "link set lo up",
    ...addresses.map((address) => `addr add ${address}/32 dev eth0`),
    "link set eth0 up",
    `route add ${GATE} dev eth0`,
    `route add default via ${GATE} dev eth0`,
  ];
}

async function startServer(namespace: string): Promise<AsyncDisposable> {
  const program = new URL("packet_server.ts", import.meta.url).pathname;
  const argv = [Deno.execPath(), "run", "--quiet", "-A", program, `${TARGET_PORT}`];
  const child = new Deno.Command("ip", {
    args: ["netns", "exec", namespace, ...argv],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  if ((await reader.read()).done) throw new Error("the server of the packet path did not start");
  reader.releaseLock();
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await child.stdout.cancel();
      await child.status;
    },
  };
}
