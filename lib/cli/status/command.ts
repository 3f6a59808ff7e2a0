/**
 * `signpost status`: how the running daemon is.
 *
 * @module
 */
import type { CommandOf } from "../../config/command.ts";
import type { Status } from "../../model/status.ts";
import type { Runtime } from "../../model/ports/runtime.ts";
import { plain } from "../../model/values/text.ts";
import { openBackend } from "../../backend/choose.ts";
import { askStatus, NoDaemonError } from "../../daemon/objects/client.ts";
import { FatalError } from "../../model/values/errors.ts";
import { jsonText, type Paint, renderReport } from "../output.ts";
import type { AskContext } from "../query.ts";
import { redraw } from "../live.ts";
import { statusLine, statusTable } from "./table.ts";

type StatusQuery = CommandOf<"status">;

/** Milliseconds between two looks. */
const INTERVAL = 1_000;

/**
 * Asks, and prints.
 *
 * @returns 0 if the daemon is well, or was watched until the end; 1 if it is starting, is not
 *   well, or does not answer
 */
export async function status(query: StatusQuery, context: AskContext): Promise<number> {
  const { configuration, runtime, logger, ask } = context;
  try {
    const first = await askStatus(configuration.signpost.socket, ask);
    if (query.watch) return await follow(first, query, context);
    await runtime.print(render(first, query, runtime));
    const { healthy, syncs, findings } = first;
    const isWell = healthy && syncs.length > 0 &&
      findings.every(({ severity }) => severity !== "error");
    return isWell ? 0 : 1;
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    logger.error(error.message);
    if (error instanceof NoDaemonError) await explainAbsence(context);
    return 1;
  }
}

/** Says what keeps a daemon from writing rules here: it ends at its start then. */
async function explainAbsence(context: AskContext): Promise<void> {
  try {
    await openBackend(context);
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    context.logger.error(`no daemon can write rules here: ${error.message}`);
  }
}

/** Shows it once a second until the signal aborts. A daemon that is started again is waited for. */
async function follow(
  first: Status,
  query: StatusQuery,
  { configuration, runtime, signal, ask }: AskContext,
): Promise<number> {
  const isLive = runtime.isTerminal() && query.output === "table";
  const show = (text: string) =>
    runtime.print(isLive ? redraw(text, { runtime, hint: "Ctrl-C ends" }) : text);
  let status: Status | undefined = first;
  let problem = "";
  while (!signal.aborted) {
    await show(status ? renderNext(status, query, { runtime, isLive }) : problem);
    await runtime.clock.sleep(INTERVAL, signal);
    try {
      status = await askStatus(configuration.signpost.socket, ask);
    } catch (error) {
      if (!(error instanceof FatalError)) throw error;
      [status, problem] = [undefined, query.output === "table" ? `${plain(error.message)}\n` : ""];
    }
  }
  return 0;
}

function render(status: Status, { output }: StatusQuery, runtime: Runtime): string {
  const table = (shown: Status, paint: Paint) =>
    statusTable(shown, { now: runtime.clock.now(), paint });
  return renderReport(status, { output, runtime, table });
}

/** One of many: a screen; or a line; or a document of a stream. */
function renderNext(
  status: Status,
  query: StatusQuery,
  { runtime, isLive }: { readonly runtime: Runtime; readonly isLive: boolean },
): string {
  if (isLive) return render(status, query, runtime);
  switch (query.output) {
    case "table":
      return statusLine(status, runtime.clock.now());
    case "json":
      return `${jsonText(status, 0)}\n`;
    case "yaml":
      return `---\n${render(status, query, runtime)}`;
  }
}
