/**
 * `signpost diff`: what applying some manifests would change in the kernel.
 *
 * @module
 */
import type { Command } from "../../config/flags/command.ts";
import { describeConflicts } from "../../policy/claimed.ts";
import { findIptables } from "../../backend/iptables/kernel/backend.ts";
import { ApplyError } from "../../model/kernel/dataplane.ts";
import { parseListing } from "../../backend/nftables/kernel/contents.ts";
import { Nft } from "../../backend/nftables/kernel/nft.ts";
import { activeMode } from "../../daemon/start/active_mode.ts";
import { readSaved } from "../../explain/kernel/kernel_read.ts";
import { FatalError } from "../../model/values/fatal.ts";
import { changesFixedRules } from "../../model/cluster/node_change.ts";
import { painter, renderReport, usesColours } from "../output.ts";
import type { QueryContext } from "../query.ts";
import { readState } from "../../daemon/start/read_state.ts";
import { changesOf, referencesOf } from "../../verify/diff/changes.ts";
import { parseOwners } from "../../verify/diff/frontends.ts";
import { type KernelChanges, kernelChanges } from "../../verify/diff/kernel_changes.ts";
import { iptablesKernelChanges } from "../../verify/diff/kernel_changes_iptables.ts";
import { overlay, Proposed } from "./proposed.ts";
import { renderDiff } from "./render.ts";
import { DIFF_VERSION, type DiffReport } from "../../verify/diff/report.ts";

type DiffCommand = Extract<Command, { readonly name: "diff" }>;

/** Milliseconds for the API server to deliver everything. */
const READ_TIMEOUT = 60_000;

/**
 * Prints the changes.
 *
 * @returns 0 where nothing would change, 1 where something would
 * @throws {FatalError} where objects or kernel cannot be read
 */
export async function diff(command: DiffCommand, context: QueryContext): Promise<number> {
  const { configuration, runtime } = context;
  const mode = await activeMode(configuration, runtime);
  const { clientConnection, master } = configuration;
  const options = { ...context, mode, manifests: command.manifests };
  const report = clientConnection.kubeconfig !== "" || master !== ""
    ? await againstApi(options)
    : await againstKernel(options).catch((error) => {
      throw error instanceof ApplyError ? new FatalError(error.message, { cause: error }) : error;
    });
  const table = (shown: DiffReport) => renderDiff(shown, painter(usesColours(runtime)));
  await runtime.print(renderReport(report, { output: command.output, table }));
  return report.changes.length === 0 ? 0 : 1;
}

interface DiffOptions extends QueryContext {
  readonly mode: "nftables" | "iptables";
  readonly manifests: readonly string[];
}

async function againstApi(options: DiffOptions): Promise<DiffReport> {
  const { mode, manifests } = options;
  const { cache, desired } = await readState({
    ...withManifests(options, []),
    mode,
    timeout: READ_TIMEOUT,
  });
  const references = referencesOf(desired);
  const proposed = await overlay(cache, manifests, options);
  const { change, conflicts } = desired.update(cache, cache.takeDirty());
  const replaces = changesFixedRules(change);
  return {
    ...headOf(options, { against: "api", proposed }),
    changes: changesOf(mode, { change, references, node: desired.node }),
    warnings: [
      ...proposed.warnings,
      ...[...Map.groupBy(conflicts, ({ loser }) => loser)].map(([loser, lost]) =>
        `Service ${loser} does not get all that it asks for: ${describeConflicts(lost)}`
      ),
      ...replaces ? ["the Node changes: all rules would be written again"] : [],
    ],
  };
}

async function againstKernel(options: DiffOptions): Promise<DiffReport> {
  const { mode, manifests } = options;
  const proposed = new Proposed();
  const { cache, desired, refused } = await readState({
    ...withManifests(options, manifests),
    mode,
    inspect: (kind, raw) => proposed.look(kind, raw),
  });
  for (const { kind, key, reason } of refused) {
    proposed.warn(`${kind} ${key} would be refused: ${reason}`);
  }
  for (const { kind, key, reason } of cache.omissions) {
    proposed.warn(`of ${kind} ${key} a part would be left out: ${reason}`);
  }
  proposed.warnOfUnallocated(cache.services);
  if (cache.node === undefined) {
    proposed.warn(`no Node ${options.nodeName} in the manifests: hints for its zone do not count`);
  }
  const { changes, warnings } = mode === "nftables"
    ? await nftablesChanges(desired, options)
    : await iptablesChanges(desired, options);
  return {
    ...headOf(options, { against: "kernel", proposed }),
    changes,
    warnings: [...proposed.warnings, ...warnings],
  };
}

type State = Parameters<typeof kernelChanges>[0];

async function nftablesChanges(state: State, { runtime }: DiffOptions): Promise<KernelChanges> {
  const listing = await new Nft(runtime.runner).listTable();
  return kernelChanges(state, { contents: parseListing(listing), owners: parseOwners(listing) });
}

async function iptablesChanges(state: State, { runtime }: DiffOptions): Promise<KernelChanges> {
  const { runner } = runtime;
  const held = await readSaved(runner, await findIptables(runner));
  return { changes: iptablesKernelChanges(state, held), warnings: [] };
}

/** The manifests of this command are what might be applied, not the present objects. */
function withManifests(options: DiffOptions, manifests: readonly string[]): QueryContext {
  const { configuration } = options;
  const signpost = { ...configuration.signpost, manifests };
  return { ...options, configuration: { ...configuration, signpost } };
}

function headOf(
  { nodeName, mode }: DiffOptions,
  { against, proposed }: {
    readonly against: DiffReport["against"];
    readonly proposed: Proposed;
  },
): Omit<DiffReport, "changes" | "warnings"> {
  return {
    diffVersion: DIFF_VERSION,
    node: nodeName,
    mode,
    against,
    objects: proposed.names,
  };
}
