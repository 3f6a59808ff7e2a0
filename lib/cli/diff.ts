/** `signpost diff`: shows what some manifests would change in the kernel. */
import type { ObjectCache } from "../cache/cache.ts";
import type { CommandOf } from "../config/command.ts";
import { objectKey, type ObjectName } from "../model/cluster/names.ts";
import type { Kind, ObjectChange, Service } from "../model/cluster/objects.ts";
import type { Mode } from "../model/configuration.ts";
import { changesFixedRules } from "../model/kernel/desired.ts";
import type { Change } from "../model/kernel/differences.ts";
import type { ObjectsOrigin } from "../model/status.ts";
import { fatalIf } from "../model/values/errors.ts";
import { fieldAt, isRecord, type JsonObject } from "../model/values/record.ts";
import { plain } from "../model/values/text.ts";
import { conflictLines } from "../policy/service_claims.ts";
import { loadManifests, ManifestError } from "../source/manifests.ts";
import { createDecoder } from "../source/objects/decode.ts";
import { type ServiceFacts, serviceFacts } from "../source/objects/inspect.ts";
import { denoFiles } from "../system/files.ts";
import type { QueryContext } from "./context.ts";
import { readNodeState } from "./objects.ts";
import { type Cell, colourTable, type Paint, renderReport } from "./output.ts";

/** The version of the report. It grows when a field is removed or changes its meaning. */
export const DIFF_VERSION = 1;

/** The answer, as data: what `-o json` prints. `docs/output.md` describes it. */
export interface DiffReport {
  readonly diffVersion: typeof DIFF_VERSION;
  readonly node: string;
  readonly mode: Mode;
  readonly against: "api";
  readonly objects: readonly string[];
  readonly present: ObjectsOrigin;
  readonly changes: readonly Change[];
  readonly warnings: readonly string[];
}

/** Prints the changes. @returns 0 if nothing would change, else 1 @throws {FatalError} if the objects cannot be read */
export async function diff(command: CommandOf<"diff">, context: QueryContext): Promise<number> {
  const { configuration, nodeName, runtime } = context;
  const { manifests, output, timeout } = command;
  // These manifests are a proposal, and not the present objects.
  const signpost = { ...configuration.signpost, manifests: [] };
  const present = { ...context, timeout, configuration: { ...configuration, signpost } };
  const { backend, origin, state: { cache, desired } } = await readNodeState(present);
  const changesOf = backend.rules.changesFrom(desired);
  const { names, warnings } = await propose(manifests, { ...context, cache });
  const { change, conflicts } = desired.update(cache, cache.takeDirty());
  const report: DiffReport = {
    diffVersion: DIFF_VERSION,
    node: nodeName,
    mode: backend.traits.name,
    against: "api",
    objects: [...names],
    present: origin,
    changes: changesOf({ change, node: desired.node }),
    warnings: [
      ...warnings,
      ...conflictLines(conflicts),
      ...changesFixedRules(change) ? ["the Node changes, so all rules would be written again"] : [],
    ],
  };
  await runtime.print(renderReport(report, { output, runtime, table: renderDiff }));
  return report.changes.length === 0 ? 0 : 1;
}

/** Applies manifests to a cache, as `kubectl apply` would. @returns `names`: such as `Service shop/web` */
async function propose(
  paths: readonly string[],
  { cache, nodeName, logger }: Pick<QueryContext, "nodeName" | "logger"> & {
    readonly cache: ObjectCache;
  },
): Promise<{ readonly names: ReadonlySet<string>; readonly warnings: readonly string[] }> {
  const names = new Set<string>();
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(plain(text));
  const before = new Map(cache.services);
  /** All Services, also without rules. */
  const services = new Map<string, ServiceFacts>();
  const decode = createDecoder();
  await loadManifests({
    paths,
    decode: <K extends Kind>(kind: K, raw: unknown): ObjectChange<K> => {
      const key = keyOf(raw);
      if (key === undefined) return decode(kind, raw);
      const isNamespaced = kind === "Service" || kind === "EndpointSlice";
      names.add(`${kind} ${plain(isNamespaced ? objectKey(key) : key.name)}`);
      if (kind !== "Service") return decode(kind, raw);
      services.set(objectKey(key), serviceFacts(raw));
      return decode(kind, withAllocatedFields(raw, before.get(objectKey(key))));
    },
    // Objects that the manifests do not name stay.
    sink: (event) => {
      if (event.type !== "replace") return;
      for (const change of event.changes.values()) {
        const { kind, key } = change;
        if (change.type === "refuse") warn(`${kind} ${key} would be refused: ${change.reason}`);
        // A delete removes the rules of a Service that becomes headless or an alias.
        else cache.apply(change);
        const omitted = change.type === "upsert" && change.object.omitted?.join("; ");
        if (omitted) warn(`a part of ${kind} ${key} would be left out: ${omitted}`);
      }
    },
    nodeName,
    files: denoFiles,
    logger,
  }).catch(fatalIf(ManifestError));
  for (const [key, service] of services) {
    const waits = service.clusterIP === "" && service.type !== "ExternalName" &&
      service.otherProxy === undefined;
    if (!waits || cache.services.has(key)) continue;
    warn(`Service ${key} has no cluster IP yet: the API server gives it one when it is applied`);
  }
  return { names, warnings };
}

function keyOf(raw: unknown): ObjectName | undefined {
  const name = fieldAt(raw, "metadata", "name");
  const namespace = fieldAt(raw, "metadata", "namespace") ?? "default";
  return typeof name === "string" && typeof namespace === "string"
    ? { namespace, name }
    : undefined;
}

/**
 * Adds allocated fields of the present Service to a manifest, as `kubectl apply` would: cluster IPs, node ports,
 * load-balancer addresses, age. Fields of the manifest take precedence.
 * @param raw the manifest, untrusted
 * @param present the Service of the same name, decoded; `undefined`: it would be new
 */
export function withAllocatedFields(raw: unknown, present: Service | undefined): unknown {
  if (!present || !isRecord(raw)) return raw;
  const { created, uid, clusterIPs, healthCheckNodePort, loadBalancerIPs } = present;
  const spec = objectAt(raw, "spec");
  const needsAddress = !spec["clusterIP"] && spec["type"] !== "ExternalName";
  const ports = spec["ports"];
  return {
    ...raw,
    // If two Services want one address, the age decides.
    metadata: fill(objectAt(raw, "metadata"), {
      creationTimestamp: created > 0 && new Date(created).toISOString(),
      uid,
    }),
    spec: {
      ...fill(spec, { healthCheckNodePort }),
      ...needsAddress && { clusterIP: clusterIPs[0], clusterIPs },
      ...Array.isArray(ports) && { ports: ports.map((port) => withNodePort(port, present, spec)) },
    },
    ...spec["type"] === "LoadBalancer" && {
      status: fill(objectAt(raw, "status"), {
        loadBalancer: { ingress: loadBalancerIPs.map((ip) => ({ ip })) },
      }),
    },
  };
}

/** Adds the present node port to a port without one, if the type has node ports. */
function withNodePort(port: unknown, present: Service, spec: JsonObject): unknown {
  const hasNodePorts = spec["type"] === "NodePort" || spec["type"] === "LoadBalancer";
  if (!isRecord(port) || !hasNodePorts) return port;
  const protocol = String(port["protocol"] ?? "TCP").toLowerCase();
  const same = present.ports.find((each) =>
    each.port === port["port"] && each.protocol === protocol
  );
  return fill(port, { nodePort: same?.nodePort });
}

/** Adds fields that the object does not set. */
function fill(object: JsonObject, fields: JsonObject): JsonObject {
  const added = Object.entries(fields).filter(([name, value]) =>
    value && [undefined, null, ""].includes(object[name] as string)
  );
  return { ...object, ...Object.fromEntries(added) };
}

function objectAt(value: unknown, key: string): JsonObject {
  const found = fieldAt(value, key);
  return isRecord(found) ? found : {};
}

/** Renders the changes as lines with `-` and `+`, and their number. */
function renderDiff(report: DiffReport, paint: Paint): string {
  const { changes, warnings, objects, node, mode } = report;
  const rows = changes.map((each): Cell[] => [
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
  const title = paint(`Applying ${plain(what ?? "nothing")}`, "bold");
  const head = ["", "WHAT", "WHERE", "KEY", "DATA", "SERVICE"];
  return [
    `${title} on node ${node}, ${mode} mode, against the present objects: ${summary}\n`,
    ...warnings.map((each) => `${paint("warning", "yellow")} ${plain(each)}\n`),
    changes.length === 0 ? "" : "\n",
    colourTable([head, ...rows], { paint, indent: "  " }),
  ].join("");
}
