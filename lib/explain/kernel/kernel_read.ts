/**
 * Reads what explain shows of the kernel: the rules of either mode, tracked connections.
 *
 * @module
 */
import { plain } from "../../model/values/text.ts";
import { type ConntrackEntry, parseEntries } from "../../conntrack/parse.ts";
import { findIptables, type Iptables } from "../../backend/iptables/kernel/backend.ts";
import { IptablesDataplane } from "../../backend/iptables/dataplane.ts";
import { CANARY_CHAIN } from "../../backend/iptables/script/names.ts";
import type { Saved } from "../../backend/iptables/kernel/saved.ts";
import type { Family } from "../../model/values/address.ts";
import { ApplyError } from "../../model/kernel/dataplane.ts";
import {
  type Logger,
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../../model/ports/ports.ts";
import { parseListing } from "../../backend/nftables/kernel/contents.ts";
import { Nft } from "../../backend/nftables/kernel/nft.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { FatalError } from "../../model/values/fatal.ts";
import { HandOver } from "../../backend/take_over.ts";
import { nftablesEntries, stickyClients } from "./kernel.ts";
import { iptablesEntries, type SavedFamilies } from "../../backend/iptables/kernel/entries.ts";
import type { KernelView } from "./kernel_report.ts";

/** What the kernel is read with. */
interface ReadOptions {
  readonly runtime: Pick<Runtime, "runner">;
  readonly logger: Logger;
}

/** Reads the kernel's rules; that they cannot be read is an answer, too. */
export async function readKernel(
  mode: "nftables" | "iptables",
  options: ReadOptions,
): Promise<KernelView> {
  try {
    return mode === "nftables" ? await readNftables(options) : await readIptables(options);
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { type: "unread", reason: plain(error.message) };
  }
}

async function readNftables({ runtime: { runner }, logger }: ReadOptions): Promise<KernelView> {
  const listing = await new Nft(runner).listTable();
  const held = parseListing(listing);
  const handOver = new HandOver({ mode: "nftables", backend: undefined, runner, logger });
  const kubeProxy = await handOver.findProxy();
  if (!held) return { type: "empty", kubeProxy };
  return {
    type: "read",
    kubeProxy,
    rules: {
      entries: (ports, node) => nftablesEntries(ports, { node, held }),
      stickyClients: (ports) => stickyClients(ports, listing),
    },
  };
}

async function readIptables({ runtime: { runner }, logger }: ReadOptions): Promise<KernelView> {
  const iptables = await findIptables(runner);
  const held = await readSaved(runner, iptables);
  const isThere = [...held.values()].some((saved) => saved.get("nat")?.chains.has(CANARY_CHAIN));
  const { backend } = iptables;
  const handOver = new HandOver({ mode: "iptables", backend, runner, logger });
  const kubeProxy = await handOver.findProxy();
  if (!isThere) return { type: "empty", kubeProxy };
  return {
    type: "read",
    kubeProxy,
    rules: {
      entries: (ports, node) => iptablesEntries(ports, { node, held }),
      // xt_recent keeps them in /proc/net/xt_recent, without the time that is left.
      stickyClients: () => [],
    },
  };
}

/**
 * The iptables rules of each family that works.
 *
 * @throws {ApplyError} where they cannot be read
 */
export async function readSaved(
  runner: ProcessRunner,
  iptables: Iptables,
): Promise<SavedFamilies> {
  const routeLocalnet = () => Promise.resolve();
  const dataplane = new IptablesDataplane({ runner, iptables, routeLocalnet });
  const held = new Map<Family, Saved>();
  for (const family of iptables.families) held.set(family, await dataplane.saved(family));
  return held;
}

/**
 * All connections of a family that the kernel tracks.
 *
 * @throws {FatalError} where they cannot be listed
 */
export async function readConnections(
  runner: ProcessRunner,
  families: readonly Family[],
): Promise<ConntrackEntry[]> {
  const entries: ConntrackEntry[] = [];
  for (const family of families) {
    const { code, stdout, stderr } = await runner.run(["conntrack", "-L", "-f", `ipv${family}`])
      .catch((error) => {
        if (error instanceof ProgramFailedError) {
          throw new FatalError(`--conntrack: ${error.message}`, { cause: error });
        }
        if (!(error instanceof ProgramMissingError)) throw error;
        throw new FatalError("--conntrack needs the program conntrack (package conntrack-tools)");
      });
    if (code !== 0) {
      throw new FatalError(`--conntrack: conntrack -L failed: ${stderr.trim().split("\n")[0]}`);
    }
    entries.push(...parseEntries(stdout));
  }
  return entries;
}
