/**
 * Keeps the devices of the flowtable, the node's interfaces that match the configured patterns. Counts its connections.
 *
 * Interfaces come and go with pods, and nft refuses a transaction that names a missing interface. So devices have
 * separate transactions, which do not delay or fail a sync of rules.
 */
import { ApplyError } from "../../model/kernel/dataplane.ts";
import type { Acceleration } from "../../model/configuration.ts";
import type { Clock, Logger, ProcessRunner, ProcessStreamer } from "../../model/ports/ports.ts";
import type { AccelerationSummary } from "../../model/status.ts";
import { FAMILIES } from "../../model/values/address.ts";
import { sameValue } from "../../model/values/record.ts";
import type { ReadMetric } from "../metrics.ts";
import type { Nft } from "./nft.ts";
import { TABLE } from "./table.ts";
import { tableSet } from "./sets.ts";

interface DevicesOptions {
  readonly nft: Pick<Nft, "apply" | "listDevices">;
  /** Runs `cat`: Deno may not read below `/proc`. */
  readonly runner: ProcessRunner;
  /** Runs `conntrack`, whose output may be long. */
  readonly streamer: ProcessStreamer;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "warn">;
  readonly settings: Pick<Acceleration, "interfaces" | "packets">;
}

/** Milliseconds between two looks at the interfaces. */
const PERIOD = 2_000;
/** Milliseconds after which the flowtable is read again, even if the interfaces stay the same. */
const READ_PERIOD = 30_000;
/** The limit of devices in one transaction. */
const MOST = 200;
/** Milliseconds between two counts of connections: `timesAsLong` the duration of a count, within bounds. */
const COUNT_PERIOD = { least: 10_000, timesAsLong: 100, most: 300_000 };

export class Devices {
  /** The interfaces that matched at the last look; `undefined`: the flowtable must be read. */
  #known: readonly string[] | undefined;
  #held: readonly string[] | undefined;
  #read = -Infinity;
  /** Interfaces that nft refuses although they exist. */
  readonly #refused = new Set<string>();
  #connections: number | null = null;

  constructor(private readonly options: DevicesOptions) {}

  /** Notes that the table was replaced: the next look reads the flowtable. */
  replaced(): void {
    this.#known = undefined;
  }

  /** Returns the devices of the flowtable; `undefined` without a flowtable, or before it was read. */
  get summary(): AccelerationSummary | undefined {
    const { packets } = this.options.settings;
    return this.#held && { packets, interfaces: this.#held, connections: this.#connections };
  }

  /** The connections on the fast path as a metric, if they can be counted. */
  get gauge(): ReadMetric {
    return {
      type: "gauge",
      definition: ["signpost_accelerated_connections", "Connections on the kernel's fast path"],
      read: () => this.#connections === null ? [] : [{ labels: {}, value: this.#connections }],
    };
  }

  /** Looks again and again until the signal aborts. Never rejects. */
  async follow(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#followInterfaces(signal), this.#followConnections(signal)]);
  }

  async #followInterfaces(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.look();
      await this.options.clock.sleep(PERIOD, signal);
    }
  }

  async #followConnections(signal: AbortSignal): Promise<void> {
    const { clock } = this.options;
    while (!signal.aborted) {
      const started = clock.monotonic();
      this.#connections = await this.#count(signal);
      const { least, timesAsLong, most } = COUNT_PERIOD;
      const pause = timesAsLong * (clock.monotonic() - started);
      await clock.sleep(Math.min(Math.max(least, pause), most), signal);
    }
  }

  /** Counts the connections that take a fast path; `null` if conntrack cannot list them. */
  async #count(signal: AbortSignal): Promise<number | null> {
    let count = 0;
    try {
      for (const family of FAMILIES) {
        const argv = ["conntrack", "-L", "-f", `ipv${family}`, "-u", "OFFLOAD"] as const;
        for await (const _ of this.options.streamer.lines([...argv], signal)) count++;
      }
      return count;
    } catch {
      return null;
    }
  }

  /** Adds new interfaces that match, and removes all devices that do not match. */
  async look(): Promise<void> {
    const { nft, clock } = this.options;
    const present = await this.#present();
    const now = clock.monotonic();
    if (present === undefined) return;
    if (sameValue(present, this.#known) && now - this.#read < READ_PERIOD) return;
    // A replacement during this look clears it again.
    this.#known = present;
    this.#read = -Infinity;
    try {
      const held = await nft.listDevices();
      if (held === undefined) return;
      for (const name of this.#refused) if (!present.includes(name)) this.#refused.delete(name);
      const missing = present.filter((name) => !held.includes(name) && !this.#refused.has(name));
      for (let i = 0; i < missing.length; i += MOST) await this.#add(missing.slice(i, i + MOST));
      const extra = held.filter((name) => !present.includes(name));
      if (extra.length > 0) await nft.apply(command("delete", extra));
      this.#read = now;
      this.#held = present.filter((name) => !this.#refused.has(name));
    } catch (error) {
      // An interface or the table went during the look: the next look reads again.
      if (!(error instanceof ApplyError)) throw error;
    }
  }

  /** Adds all at once; if nft refuses that, each alone. */
  async #add(names: readonly string[]): Promise<void> {
    const { nft, logger } = this.options;
    try {
      await nft.apply(command("add", names));
    } catch (error) {
      if (!(error instanceof ApplyError)) throw error;
      if (names.length > 1) {
        for (const name of names) await this.#add([name]);
        return;
      }
      const [name = ""] = names;
      if ((await this.#present())?.includes(name) !== true) return;
      this.#refused.add(name);
      logger.warn("an interface cannot take the fast path: its packets keep the usual path", {
        interface: name,
        error: error.message,
      });
    }
  }

  /** Returns the interfaces that match, sorted; `undefined` if they cannot be read. */
  async #present(): Promise<readonly string[] | undefined> {
    const { runner, settings } = this.options;
    const devices = await runner.run(["cat", "/proc/net/dev"]).catch(() => undefined);
    return devices?.code === 0
      ? matchingInterfaces(devices.stdout, settings.interfaces)
      : undefined;
  }
}

/** Matches a name that a script can have without escapes. */
const PLAIN_NAME = /^[A-Za-z0-9_.@=-]{1,15}$/;

/** Returns the interfaces of `/proc/net/dev` that match a pattern, sorted, without `lo`. */
export function matchingInterfaces(text: string, patterns: readonly string[]): string[] {
  const matches = (name: string) =>
    patterns.some((pattern) =>
      pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern
    );
  const names = [...text.matchAll(/^ *([^\s:]+):/gm)].map(([, name = ""]) => name);
  return names.filter((name) => name !== "lo" && PLAIN_NAME.test(name) && matches(name)).sort();
}

function command(verb: "add" | "delete", names: readonly string[]): string {
  const { name, body } = tableSet("fastPath", {});
  const devices = names.map((each) => `"${each}"`).join(", ");
  // Without the flags of the declaration, the kernel would take them away.
  return `${verb} flowtable ${TABLE} ${name} { ${body}; devices = { ${devices} }; }\n`;
}
