/**
 * Reads what explain shows of the kernel: our rules, tracked connections.
 *
 * @module
 */
import { append } from "../../model/values/lists.ts";
import { plain } from "../../model/values/text.ts";
import type { Backend, PortsOfNode } from "../../backend/backend.ts";
import { type ConntrackEntry, parseEntries } from "../../conntrack/tool.ts";
import type { Family } from "../../model/values/address.ts";
import { ApplyError } from "../../model/kernel/dataplane.ts";
import {
  type ProcessRunner,
  ProgramFailedError,
  ProgramMissingError,
} from "../../model/ports/ports.ts";
import { FatalError } from "../../model/values/errors.ts";
import type { KernelView } from "./kernel_report.ts";

/** Reads the kernel's rules of some ports; that they cannot be read is an answer, too. */
export async function readKernel(
  backend: Pick<Backend, "read" | "foreignRules">,
  about: PortsOfNode,
): Promise<KernelView> {
  try {
    const [rules, kubeProxy] = await Promise.all([
      backend.read(about),
      backend.foreignRules.findProxy(),
    ]);
    return rules.isEmpty ? { type: "empty", kubeProxy } : { type: "read", kubeProxy, rules };
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error;
    return { type: "unread", reason: plain(error.message) };
  }
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
    append(entries, parseEntries(stdout));
  }
  return entries;
}
