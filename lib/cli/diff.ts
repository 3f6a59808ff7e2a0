/** `signpost diff`: shows what some manifests would change in the kernel. */
import type { ObjectCache } from "../cache/cache.ts";
import type { CommandOf } from "../config/command.ts";
import { objectKey } from "../model/cluster/names.ts";
import type { Decoded, Kind, KindMap, ObjectEvent } from "../model/cluster/objects.ts";
import { changesFixedRules } from "../model/kernel/desired.ts";
import { fatalIf } from "../model/values/errors.ts";
import { fieldAt } from "../model/values/record.ts";
import { plain } from "../model/values/text.ts";
import { conflictLines } from "../policy/claimed.ts";
import { loadManifests, ManifestError } from "../source/manifests.ts";
import { createDecoder } from "../source/objects/decode.ts";
import { Inspector } from "../source/objects/inspect.ts";
import { denoFiles } from "../system/files.ts";
import { DIFF_VERSION, type DiffReport } from "../verify/diff_report.ts";
import { withAllocatedFields } from "../verify/overlay.ts";
import type { QueryContext } from "./context.ts";
import { readNodeState } from "./objects.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";

/**
 * Prints the changes.
 * @returns 0 if nothing would change, else 1
 * @throws {FatalError} if the objects cannot be read
 */
export async function diff(command: CommandOf<"diff">, context: QueryContext): Promise<number> {
  const { configuration, nodeName, runtime } = context;
  const { manifests, output, timeout } = command;
  // These manifests might be applied. They are no present objects.
  const signpost = { ...configuration.signpost, manifests: [] };
  const known = await readNodeState({
    ...context,
    timeout,
    configuration: { ...configuration, signpost },
  });
  const { backend, origin, state: { cache, desired } } = known;
  const changesOf = backend.changesFrom(desired);
  const proposed = new Proposed(cache);
  await proposed.read(manifests, context);
  const { change, conflicts } = desired.update(cache, cache.takeDirty());
  const replaces = changesFixedRules(change);
  const report: DiffReport = {
    diffVersion: DIFF_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    against: "api",
    objects: [...proposed.names],
    present: origin,
    changes: changesOf({ change, node: desired.node }),
    warnings: [
      ...proposed.warnings,
      ...conflictLines(conflicts),
      ...replaces ? ["the Node changes: all rules would be written again"] : [],
    ],
  };
  await runtime.print(renderReport(report, { output, runtime, table: renderDiff }));
  return report.changes.length === 0 ? 0 : 1;
}

/** Lays manifests over the objects of a cache, as applying them would. */
class Proposed {
  /** `Service shop/web` and so on, in the order of the manifests. */
  readonly names = new Set<string>();
  /** Objects that cannot be used, and Services that have no address yet. */
  readonly warnings: string[] = [];
  /** All Services, those without rules too. */
  readonly #services = new Map<string, Inspector>();
  readonly #cache: ObjectCache;

  constructor(cache: ObjectCache) {
    this.#cache = cache;
  }

  async read(
    paths: readonly string[],
    { nodeName, logger }: Pick<QueryContext, "nodeName" | "logger">,
  ): Promise<void> {
    const decode = createDecoder();
    const before = new Map(this.#cache.services);
    await loadManifests({
      paths,
      decode: <K extends Kind>(kind: K, raw: unknown): Decoded<K> => {
        if (kind !== "Service") return decode(kind, raw);
        const key = keyOf(raw);
        const present = key && before.get(objectKey(key));
        return decode(kind, withAllocatedFields(raw, present));
      },
      sink: (event) => this.#apply(event),
      inspect: (kind, raw) => this.#look(kind, raw),
      nodeName,
      files: denoFiles,
      logger,
    }).catch(fatalIf(ManifestError));
    for (const [key, { service }] of this.#services) {
      const waits = service?.clusterIP === "" && service.type !== "ExternalName" &&
        service.otherProxy === "";
      if (!waits || this.#cache.services.has(key)) continue;
      this.#warn(
        `Service ${key} has no cluster IP yet: the API server gives it one when it is applied`,
      );
    }
  }

  #look(kind: Kind, raw: unknown): void {
    const key = keyOf(raw);
    if (key === undefined) return;
    const isNamespaced = kind === "Service" || kind === "EndpointSlice";
    this.names.add(`${kind} ${plain(isNamespaced ? objectKey(key) : key.name)}`);
    if (kind !== "Service") return;
    const inspector = new Inspector(key);
    inspector.look(kind, raw);
    this.#services.set(objectKey(key), inspector);
  }

  /** Manifests are only a part of the state: objects that they do not name stay. */
  #apply(event: ObjectEvent): void {
    if (event.type !== "replace") return;
    const { kind, objects, refused } = event;
    for (const [key, object] of objects) {
      this.#cache.apply(
        { type: "upsert", kind, key, object: object as KindMap[typeof kind] } as ObjectEvent,
      );
      if (object.omitted) {
        this.#warn(`of ${kind} ${key} a part would be left out: ${object.omitted.join("; ")}`);
      }
    }
    for (const [key, reason] of refused) this.#warn(`${kind} ${key} would be refused: ${reason}`);
    if (kind !== "Service") return;
    // A Service that becomes headless or an alias loses its rules.
    for (const key of this.#services.keys()) {
      if (!objects.has(key) && !refused.has(key)) this.#cache.apply({ type: "delete", kind, key });
    }
  }

  #warn(text: string): void {
    this.warnings.push(plain(text));
  }
}

function keyOf(raw: unknown): { readonly namespace: string; readonly name: string } | undefined {
  const name = fieldAt(raw, "metadata", "name");
  const namespace = fieldAt(raw, "metadata", "namespace") ?? "default";
  return typeof name === "string" && typeof namespace === "string"
    ? { namespace, name }
    : undefined;
}

/** Renders the changes as lines with `-` and `+`, and their number. */
function renderDiff(report: DiffReport, paint: Paint): string {
  const { changes, warnings, objects, node, mode } = report;
  const rows: Cell[][] = changes.map((each) => [
    each.change === "add" ? { text: "+", colour: "green" } : { text: "-", colour: "red" },
    each.type,
    each.in,
    each.key,
    each.data,
    each.service,
  ]);
  const what = objects.length === 1 ? objects[0] : `${objects.length} objects`;
  const adds = changes.filter(({ change }) => change === "add").length;
  const summary = changes.length === 0
    ? paint("nothing would change", "green")
    : `${paint(`${adds} to add`, "green")}, ${paint(`${changes.length - adds} to delete`, "red")}`;
  return `${
    paint(`Applying ${plain(what ?? "nothing")}`, "bold")
  } on node ${node}, ${mode} mode, against ` +
    `the present objects: ${summary}\n` +
    warnings.map((each) => `${paint("warning", "yellow")} ${plain(each)}\n`).join("") +
    (changes.length === 0 ? "" : "\n") +
    colourTable([["", "WHAT", "WHERE", "KEY", "DATA", "SERVICE"], ...rows], {
      paint,
      indent: "  ",
    });
}
