/** `signpost status`: shows the state of the running daemon. */
import type { CommandOf } from "../config/command.ts";
import type { Status } from "../model/status.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { count } from "../model/values/text.ts";
import { openBackend } from "../backend/choose.ts";
import { askStatus, NoDaemonError } from "./client.ts";
import { messageIfFatal } from "../model/values/errors.ts";
import { follow, SCROLL_HELP } from "./follow.ts";
import { jsonText, type Paint, renderFindings, renderReport, textTable } from "./output.ts";
import type { QueryContext } from "./context.ts";
import {
  countConflicts,
  countRefused,
  formatAgo,
  formatDuration,
  healthOf,
} from "../observe/human.ts";
import { statusView, type TextRows } from "../observe/status_view.ts";

const INTERVAL = 1_000;

/** Prints the daemon's status. @returns 0: healthy, or watched; 1: starting, unhealthy, or no answer */
export async function status(
  { output, namespace, watch }: CommandOf<"status">,
  context: QueryContext,
): Promise<number> {
  const { runtime, logger } = context;
  const isLive = runtime.isTerminal() && output === "table";
  const render = (whole: Status): string => {
    const status = namespace === "" ? whole : ofNamespace(whole, namespace);
    const table = (shown: Status, paint: Paint) => statusTable(shown, runtime, paint);
    const text = renderReport(status, { output, runtime, table });
    if (!watch || isLive) return text;
    // With --watch, each status is one line, or one document of a YAML stream.
    return output === "json"
      ? `${jsonText(status, 0)}\n`
      : output === "yaml"
      ? `---\n${text}`
      : statusLine(status, runtime.clock.now());
  };
  try {
    const first = await askStatus(context);
    if (!watch) {
      await runtime.print(render(first));
      const { healthy, syncs, findings } = first;
      const hasError = findings.some(({ severity }) => severity === "error");
      return healthy && syncs.length > 0 && !hasError ? 0 : 1;
    }
    await follow(first, {
      ...context,
      render,
      ask: () => askStatus(context),
      problem: (message) => output === "table" ? message : "",
      pause: () => INTERVAL,
      isLive,
      layout: { fixed: 0, wraps: true, help: SCROLL_HELP },
    });
    return 0;
  } catch (error) {
    logger.error(messageIfFatal(error));
    if (!(error instanceof NoDaemonError)) return 1;
    // A daemon that cannot write rules ends at its start, so this may be the reason.
    await openBackend(context).catch((obstacle) => {
      logger.error(`no daemon can write rules here: ${messageIfFatal(obstacle)}`);
    });
    return 1;
  }
}

/** Returns a status with the node's findings, and the findings and objects of one namespace. */
function ofNamespace({ refusedByKind: _, ...status }: Status, namespace: string): Status {
  const isOf = (key: string) => key.startsWith(`${namespace}/`);
  return {
    ...status,
    findings: status.findings.filter(({ services }) =>
      services.length === 0 || services.some(isOf)
    ),
    refused: status.refused.filter(({ key }) => isOf(key)),
    conflicts: status.conflicts.filter(({ holder, loser }) => isOf(holder) || isOf(loser)),
  };
}

function statusTable(status: Status, runtime: Runtime, paint: Paint): string {
  const view = statusView(status, runtime.clock.now());
  const { version, facts, watches, syncs, refused, conflicts } = view;
  const { health, colour } = healthOf(status, runtime.clock.now());
  return [
    `signpost ${version} on ${status.node}: ${paint(health, colour)}\n`,
    textTable(facts, { indent: "  " }),
    status.findings.length === 0 ? "" : `\n${renderFindings(status.findings, paint)}`,
    ...[watches, syncs, refused, conflicts].map(section),
  ].join("");
}

function section({ head, rows }: TextRows): string {
  const title = head.map((cell) => cell.toUpperCase());
  return rows.length === 0 ? "" : `\n${textTable([title, ...rows])}`;
}

/** Renders a status in one line, for logs. */
function statusLine(status: Status, now: number): string {
  const { watches, findings } = status;
  const last = status.syncs.at(-1);
  const sync = last
    ? `last sync ${last.kind} ${formatAgo(last.at, now)} in ${formatDuration(last.seconds)}`
    : "no sync yet";
  const watching = watches.filter(({ state }) => state === "watching").length;
  const conflicts = count(countConflicts(status.conflicts), "conflict");
  const watched = watches.length === 0 ? "" : `${watching} of ${watches.length} watches, `;
  return `${new Date(now).toISOString()} ${healthOf(status, now).health}, ${status.mode}, ` +
    `${count(status.services, "service")}, ${count(status.endpoints, "endpoint")}, ${sync}, ` +
    `${watched}${count(findings.length, "finding")}, ${countRefused(status)} refused, ` +
    `${conflicts}, ${count(status.driftRepairs, "drift repair")}\n`;
}
