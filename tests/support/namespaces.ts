/** Network namespaces by name, with a prefix that tells whose they are. */
import ipaddr from "ipaddr.js";
import { run } from "./command.ts";
import { eventually } from "./eventually.ts";
import type { Libc } from "./libc.ts";

const PREFIX = /^signpost-(\d+)-[0-9a-f]+-/;
const FOLDER = "/run/netns";
/** A flag of routes, from `linux/ipv6_route.h`. */
const RTF_LOCAL = 0x80000000;

/**
 * Settings of every namespace; `{}` stands for `all` and `default`. ICMP errors are not limited:
 * a reject must not look like a drop.
 */
const SYSCTLS: Readonly<Record<string, number | string>> = {
  "ipv4/conf/{}/rp_filter": 0,
  "ipv4/conf/{}/accept_redirects": 0,
  "ipv4/conf/{}/send_redirects": 0,
  "ipv6/conf/{}/accept_dad": 0,
  "ipv6/conf/{}/dad_transmits": 0,
  "ipv6/conf/{}/accept_ra": 0,
  "ipv6/conf/{}/accept_redirects": 0,
  "ipv6/conf/{}/disable_ipv6": 0,
  "ipv4/icmp_ratelimit": 0,
  "ipv4/icmp_ratemask": 0,
  "ipv4/icmp_msgs_per_sec": 1_000_000,
  "ipv4/icmp_msgs_burst": 1_000_000,
  "ipv6/icmp/ratelimit": 0,
  "ipv6/icmp/ratemask": "",
};

/** Settings that make a namespace a router. */
export const FORWARDING: Readonly<Record<string, number>> = {
  "ipv4/ip_forward": 1,
  "ipv6/conf/all/forwarding": 1,
};

/** The namespaces of one test, by short name; removed when disposed. */
export class Namespaces implements AsyncDisposable {
  readonly #libc: Libc;
  readonly #prefix: string;
  readonly #handles = new Map<string, number>();

  private constructor(libc: Libc) {
    this.#libc = libc;
    const random = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
    this.#prefix = `signpost-${Deno.pid}-${random.toString(16)}-`;
  }

  /** Makes the namespaces, after those of processes that are no more have been removed. */
  static async create(libc: Libc, names: readonly string[]): Promise<Namespaces> {
    await removeLeftovers();
    const spaces = new Namespaces(libc);
    try {
      await run(["ip", "-batch", "-"], {
        stdin: names.map((name) => `netns add ${spaces.fullName(name)}\n`).join(""),
      });
      for (const name of names) {
        const path = `${FOLDER}/${spaces.fullName(name)}`;
        spaces.#handles.set(name, libc.openNamespace(path));
        spaces.setSysctls(name, SYSCTLS);
      }
    } catch (error) {
      await spaces[Symbol.asyncDispose]();
      throw error;
    }
    return spaces;
  }

  /** The name by which `ip netns` knows it. */
  fullName(name: string): string {
    return this.#prefix + name;
  }

  /** The open namespace, for `Libc`. */
  handle(name: string): number {
    const handle = this.#handles.get(name);
    if (handle === undefined) throw new Error(`there is no namespace ${JSON.stringify(name)}`);
    return handle;
  }

  /**
   * Runs `ip` commands in a namespace, all in one go; those that begin with `-6 ` come last.
   *
   * IPv6 addresses that were added take packets when this returns.
   */
  async ip(name: string, commands: readonly string[]): Promise<void> {
    for (const family of ["-4", "-6"]) {
      const lines = commands
        .filter((command) => command.startsWith("-6 ") === (family === "-6"))
        .map((command) => `${command.replace(/^-6 /, "")}\n`);
      if (lines.length === 0) continue;
      const options = family === "-6" ? ["-6"] : [];
      await run(["ip", ...options, "-n", this.fullName(name), "-batch", "-"], {
        stdin: lines.join(""),
      });
    }
    const added = commands.flatMap((command) => /^addr add (\S+:\S*)\//.exec(command)?.[1] ?? []);
    await eventually(
      `${name} has local routes to ${added.join(", ")}`,
      () => this.#hasLocalRoutes(name, added),
      { interval: 1 },
    );
  }

  /** Tells if packets to these IPv6 addresses arrive: the kernel adds the routes in the background. */
  #hasLocalRoutes(name: string, addresses: readonly string[]): boolean {
    if (addresses.length === 0) return true;
    const table = this.#libc.inside(
      this.handle(name),
      () => Deno.readTextFileSync("/proc/thread-self/net/ipv6_route"),
    );
    const local = new Set(
      table.split("\n").map((line) => line.split(/ +/))
        .filter((fields) => (parseInt(fields[8] ?? "", 16) & RTF_LOCAL) !== 0)
        .map(([destination]) => destination),
    );
    return addresses.every((each) =>
      local.has(new Uint8Array(ipaddr.parse(each).toByteArray()).toHex())
    );
  }

  /** Writes settings below `/proc/sys/net`; those that the kernel lacks are left out. */
  setSysctls(name: string, values: Readonly<Record<string, number | string>>): void {
    this.#libc.inside(this.handle(name), () => {
      for (const [path, value] of Object.entries(values)) {
        for (const place of path.includes("{}") ? ["all", "default"] : [""]) {
          try {
            Deno.writeTextFileSync(`/proc/sys/net/${path.replace("{}", place)}`, `${value}`);
          } catch (error) {
            if (!(error instanceof Deno.errors.NotFound)) throw error;
          }
        }
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const handle of this.#handles.values()) this.#libc.close(handle);
    this.#handles.clear();
    await removeNamespaces((await listNamespaces()).filter((n) => n.startsWith(this.#prefix)));
  }
}

/** Removes the namespaces of test processes that ended without doing so. */
async function removeLeftovers(): Promise<void> {
  const names = await listNamespaces();
  await removeNamespaces(names.filter((name) => {
    const pid = PREFIX.exec(name)?.[1];
    return pid !== undefined && !isAlive(pid);
  }));
}

async function listNamespaces(): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(FOLDER))).map((entry) => entry.name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Removes namespaces; another test may remove the same leftovers at the same time. */
async function removeNamespaces(names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const commands = names.map((name) => `netns del ${name}\n`).join("");
  try {
    await run(["ip", "-force", "-batch", "-"], { stdin: commands });
  } catch (error) {
    const left = new Set(await listNamespaces());
    if (names.some((name) => left.has(name))) throw error;
  }
}

function isAlive(pid: string): boolean {
  try {
    Deno.statSync(`/proc/${pid}`);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
