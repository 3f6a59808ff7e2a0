/**
 * `signpost diff`: shows what some manifests would change in the kernel.
 *
 * @module
 */
import type { CommandOf } from "../config/command.ts";
import { conflictLines } from "../policy/claimed.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import { fatalIf } from "../model/values/errors.ts";
import { changesFixedRules } from "../model/kernel/desired.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";
import { type NodeState, readNodeState } from "./objects.ts";
import type { QueryContext } from "./context.ts";
import { overlay, Proposed } from "./proposed.ts";
import { DIFF_VERSION, type DiffReport } from "../verify/diff_report.ts";
import { plain } from "../model/values/text.ts";

type DiffCommand = CommandOf<"diff">;

/**
 * Prints the changes.
 *
 * @returns 0 where nothing would change, 1 where something would
 * @throws {FatalError} where objects or kernel cannot be read
 */
export async function diff(command: DiffCommand, context: QueryContext): Promise<number> {
  const { configuration, runtime, configuredBy } = context;
  const { clientConnection, master } = configuration;
  const options = { ...context, ...command };
  const report = clientConnection.kubeconfig !== "" || master !== "" || configuredBy === "daemon"
    ? await againstObjects(options)
    : await againstKernel(options).catch(fatalIf(ApplyError));
  const { output } = command;
  await runtime.print(renderReport(report, { output, runtime, table: renderDiff }));
  return report.changes.length === 0 ? 0 : 1;
}

type DiffOptions = QueryContext & Pick<DiffCommand, "manifests" | "timeout">;

async function againstObjects(options: DiffOptions): Promise<DiffReport> {
  const { manifests } = options;
  const known = await readNodeState(withManifests(options, []));
  const { backend, state: { cache, desired } } = known;
  const changesOf = backend.changesFrom(desired);
  const proposed = await overlay(cache, manifests, options);
  const { change, conflicts } = desired.update(cache, cache.takeDirty());
  const replaces = changesFixedRules(change);
  return {
    ...headOf(known, { ...options, against: "api", proposed }),
    changes: changesOf({ change, node: desired.node }),
    warnings: [
      ...proposed.warnings,
      ...conflictLines(conflicts),
      ...replaces ? ["the Node changes: all rules would be written again"] : [],
    ],
  };
}

async function againstKernel(options: DiffOptions): Promise<DiffReport> {
  const { manifests } = options;
  const proposed = new Proposed();
  const known = await readNodeState({
    ...withManifests(options, manifests),
    inspect: (kind, raw) => proposed.look(kind, raw),
  });
  const { backend, state: { cache, desired, refused } } = known;
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
  const { changes, warnings } = (await backend.read()).changesTo(desired);
  return {
    ...headOf(known, { ...options, against: "kernel", proposed }),
    changes,
    warnings: [...proposed.warnings, ...warnings],
  };
}

/** Returns options with other manifests: those of this command might be applied, and are no present objects. */
function withManifests(options: DiffOptions, manifests: readonly string[]): DiffOptions {
  const { configuration } = options;
  const signpost = { ...configuration.signpost, manifests };
  return { ...options, configuration: { ...configuration, signpost } };
}

function headOf(
  { backend, origin }: NodeState,
  { nodeName, against, proposed }: {
    readonly nodeName: string;
    readonly against: DiffReport["against"];
    readonly proposed: Proposed;
  },
): Omit<DiffReport, "changes" | "warnings"> {
  return {
    diffVersion: DIFF_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    against,
    objects: proposed.names,
    present: origin,
  };
}

/** Lines with `-` and `+`, and their number. */
function renderDiff(report: DiffReport, paint: Paint): string {
  const { changes, warnings, objects, node, mode, against } = report;
  const rows: Cell[][] = changes.map((each) => [
    each.change === "add" ? { text: "+", colour: "green" } : { text: "-", colour: "red" },
    each.type,
    each.in,
    each.key,
    each.data,
    each.service,
  ]);
  const what = objects.length === 1 ? objects[0] : `${objects.length} objects`;
  const before = against === "api" ? "the present objects" : "what the kernel holds";
  const adds = changes.filter(({ change }) => change === "add").length;
  const summary = changes.length === 0
    ? paint("nothing would change", "green")
    : `${paint(`${adds} to add`, "green")}, ${paint(`${changes.length - adds} to delete`, "red")}`;
  return `${
    paint(`Applying ${plain(what ?? "nothing")}`, "bold")
  } on node ${node}, ${mode} mode, against ` +
    `${before}: ${summary}\n` +
    warnings.map((each) => `${paint("warning", "yellow")} ${plain(each)}\n`).join("") +
    (changes.length === 0 ? "" : "\n") +
    colourTable([["", "WHAT", "WHERE", "KEY", "DATA", "SERVICE"], ...rows], {
      paint,
      indent: "  ",
    });
}
