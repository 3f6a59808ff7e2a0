/** `signpost verify`: compares the kernel with the desired state. */
import type { Comparison } from "../backend/backend.ts";
import type { CommandOf } from "../config/command.ts";
import { ApplyError } from "../model/kernel/dataplane.ts";
import {
  type FixOutcome,
  type ServiceDifference,
  type Verification,
  VERIFY_VERSION,
} from "../model/kernel/differences.ts";
import { FatalError, fatalIf, messageIfFatal } from "../model/values/errors.ts";
import { count, plain } from "../model/values/text.ts";
import { formatDuration } from "../observe/human.ts";
import { missingListeners, wantedListeners } from "../localhost/listeners.ts";
import { LONGEST_PAUSE as LONGEST_ADAPTIVE } from "../sync/sync.ts";
import { askStatus, requestFullSync } from "./client.ts";
import type { QueryContext } from "./context.ts";
import { type NodeState, type ObjectsOptions, readNodeState, warnOfObjects } from "./objects.ts";
import { type Cell, type Paint, renderReport, textTable } from "./output.ts";

/** Milliseconds for the daemon to write a change, in addition to the min sync period, and the most in all. */
const GRACE = 500;
const LONGEST_PAUSE = 10_000;

/** Prints the comparison. @returns 0 if the kernel finally has the desired rules, else 1 @throws {FatalError} */
export async function verify(
  query: CommandOf<"verify">,
  context: QueryContext,
): Promise<number> {
  const { report, parts } = await verification(query, context).catch(fatalIf(ApplyError));
  const { runtime } = context;
  await runtime.print(renderReport(report, {
    output: query.output,
    runtime,
    table: (shown, paint) => verificationTable(shown, { paint, parts }),
  }));
  const isFixed = report.fix?.result === "fixed" && report.otherProxies.length === 0;
  return report.same || isFixed ? 0 : 1;
}

/** Compares, and asks for a full sync with `fix`. @throws {ApplyError | FatalError} if a side cannot be read */
export async function verification(
  query: { readonly fix: boolean; readonly timeout: number },
  context: QueryContext,
): Promise<{ readonly report: Verification; readonly parts: string }> {
  const options = { ...context, ...query };
  const { known, compared, differences, inFlight } = await compareTwice(options);
  const { state: { desired: { services } }, backend, origin, heldBack } = known;
  const otherProxies = await backend.foreignRules.findProxy();
  const isSame = differences.length === 0;
  const isFixed = async () => (await compareTwice(options, known)).differences.length === 0;
  const report: Verification = {
    verifyVersion: VERIFY_VERSION,
    node: context.nodeName,
    mode: backend.traits.name,
    same: isSame && otherProxies.length === 0,
    services: services.size,
    servicePorts: [...services.values()].reduce((sum, { length }) => sum + length, 0),
    compared,
    differences,
    inFlight,
    heldBack: heldBack.map(({ service, reason }) => ({ service, reason })),
    otherProxies,
    fix: !query.fix
      ? null
      : isSame
      ? { result: "unneeded", message: "the rules do not differ, so no sync is needed" }
      : await fix(context, isFixed),
    objects: origin,
  };
  return { report, parts: backend.traits.parts };
}

interface Compared extends Comparison {
  readonly known: NodeState;
  readonly inFlight: readonly ServiceDifference[];
}

/** Compares twice if something differs, because objects may have changed. @param earlier the state at the last look */
async function compareTwice(options: ObjectsOptions, earlier?: NodeState): Promise<Compared> {
  const { configuration, runtime, signal } = options;
  const first = await compareOnce(options, earlier);
  if (first.differences.length === 0) return first;
  const { minSyncPeriod } = configuration[first.known.backend.traits.name];
  const gathering = minSyncPeriod === "adaptive" ? LONGEST_ADAPTIVE : minSyncPeriod;
  await runtime.clock.sleep(Math.min(gathering + GRACE, LONGEST_PAUSE), signal);
  if (signal.aborted) throw new FatalError("interrupted");
  const second = await compareOnce(options, first.known);
  const held = new Map(first.differences.map((each) => [`${each.in} ${each.key}`, each.held]));
  const { same = [], changing = [] } = Object.groupBy(
    second.differences,
    (each) => held.get(`${each.in} ${each.key}`) === each.held ? "same" : "changing",
  );
  return { ...second, differences: same, inFlight: changing };
}

async function compareOnce(options: ObjectsOptions, earlier?: NodeState): Promise<Compared> {
  const { configuration: { signpost: { manifests } }, runtime, logger } = options;
  // The standard input can be read only once.
  const isReadOnce = earlier?.origin.from === "manifests" && manifests.includes("-");
  const known = isReadOnce ? earlier : await readNodeState(options);
  if (!earlier) warnOfObjects(known.state, logger);
  const { state: { desired }, backend } = known;
  const { compared, differences } = (await backend.rules.read()).compare(desired);
  const wanted = wantedListeners([...desired.services.values()].flat(), desired.node);
  // Runs `cat`, because Deno lets no code read these files.
  const sockets = wanted.length === 0
    ? ""
    : (await runtime.runner.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"])).stdout;
  return {
    known,
    compared: compared + wanted.length,
    differences: [...differences, ...missingListeners(wanted, sockets)],
    inFlight: [],
  };
}

const COLOURS = { missing: "red", extra: "yellow", wrong: "red" } as const;

/** Renders the report as text. @param options `parts`: the parts of rules in this mode, in the plural */
export function verificationTable(
  report: Verification,
  { paint, parts }: { readonly paint: Paint; readonly parts: string },
): string {
  const { node, mode, services, servicePorts, compared, differences, inFlight } = report;
  const verdict = report.same
    ? paint("the kernel has the desired rules", "green")
    : differences.length === 0
    ? paint("the kernel has the desired rules, and another proxy's rules", "yellow")
    : paint(count(differences.length, "difference"), "red");
  const section = (title: string, rows: readonly (readonly Cell[])[]) =>
    rows.length === 0 ? "" : `\n${title}\n${textTable(rows, { paint, indent: "  " })}`;
  const listed = (list: readonly ServiceDifference[]) =>
    [...Map.groupBy(list, (each) => each.in)].map(([place, rows]) =>
      section(plain(place), rows.map(toRow))
    );
  return [
    `${mode} on ${plain(node)}: ${count(services, "service")} with ${
      count(servicePorts, "port")
    }, ` +
    `${compared} ${parts}\n${verdict}\n`,
    ...listed(differences),
    ...inFlight.length === 0 ? [] : [
      "\nin flight: the daemon writes these in a moment, changes of the node's addresses within 30 s\n",
      ...listed(inFlight),
    ],
    section(
      "held back: the daemon keeps the last good rules of these Services, so they count as correct",
      report.heldBack.map(({ service, reason }) => [service, reason]),
    ),
    section(
      "another proxy has rules on this node: stop it, then start signpost again, which removes them",
      report.otherProxies.map((rules) => [rules]),
    ),
    report.fix ? `\n${plain(report.fix.message)}\n` : "",
  ].join("");
}

function toRow({ type, key, desired, held, service }: ServiceDifference): Cell[] {
  const value = type === "missing" ? desired : held;
  const what = type === "wrong"
    ? `${key === "" ? "" : `${key} : `}${held} (should be ${desired || "nothing"})`
    : `${key || "all of it"}${value === "" ? "" : ` : ${value}`}`;
  return [{ text: type, colour: COLOURS[type] }, what, service];
}

/** Milliseconds to wait for the sync, and between two requests. */
const DEADLINE = 30_000;
const INTERVAL = 200;

/** Asks the daemon for a full sync, and compares again. */
async function fix(context: QueryContext, isFixed: () => Promise<boolean>): Promise<FixOutcome> {
  const { runtime: { clock }, signal } = context;
  const lastFull = async () =>
    (await askStatus(context)).syncs.findLast(({ kind }) => kind === "full");
  try {
    const before = await lastFull();
    await requestFullSync(context);
    const end = clock.monotonic() + DEADLINE;
    let sync = await lastFull();
    while (sync?.at === before?.at) {
      if (clock.monotonic() >= end || signal.aborted) break;
      await clock.sleep(INTERVAL, signal);
      sync = await lastFull();
    }
    if (!sync || sync.at === before?.at) {
      return {
        result: "failed",
        message: "the daemon did not make a full sync: see its log",
      };
    }
    const { seconds, operations } = sync;
    const time = formatDuration(seconds);
    const done = `the daemon has made a full sync (${operations} operations in ${time})`;
    return await isFixed()
      ? { result: "fixed", message: `${done}; the kernel now has the desired rules` }
      : {
        result: "differs",
        message:
          `${done}, but the kernel still differs: compare the flags of the daemon, and look for another program that writes these rules`,
      };
  } catch (error) {
    return { result: "failed", message: messageIfFatal(error) };
  }
}
