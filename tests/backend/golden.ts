/**
 * Golden cases: YAML with a cluster's objects and some steps in, the scripts of each mode out.
 *
 * `tests/testdata/golden/NAME.yaml` gives `NAME.nftables`, the full script, and `NAME.N.nftables`, the
 * partial script of the Nth step; for iptables the same.
 */
import { parse } from "@std/yaml";
import type { Backend } from "../../lib/backend/backend.ts";
import type { Script } from "../../lib/model/kernel/dataplane.ts";
import { atOnce } from "../../lib/model/ports/in_turns.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { type ApiObject, Pipeline, type PipelineOptions } from "../support/pipeline.ts";

/** The folder of the cases. */
export const FOLDER = new URL("../testdata/golden/", import.meta.url);

/** A step after the first state. */
interface GoldenStep {
  readonly description: string;
  /** Objects that come, or come again. */
  readonly apply?: readonly ApiObject[];
  /** Objects that go, as `Kind namespace/name`. */
  readonly delete?: readonly string[];
}

/** A case, as its file says it. */
export interface GoldenCase {
  /** Of the file, without `.yaml`. */
  readonly name: string;
  readonly description: string;
  /** Settings of nftables mode hold in the other modes, too. */
  readonly configuration: NonNullable<PipelineOptions["configuration"]>;
  /** A kernel without flowtables refuses the scripts of nftables mode. */
  readonly needsFlowtables?: true;
  readonly objects: readonly ApiObject[];
  readonly steps?: readonly GoldenStep[];
}

/** Reads all cases, by name. */
export function readCases(): GoldenCase[] {
  const files = [...Deno.readDirSync(FOLDER)].map(({ name }) => name);
  return files.filter((name) => name.endsWith(".yaml")).sort().map((file) => ({
    ...parse(Deno.readTextFileSync(new URL(file, FOLDER))) as GoldenCase,
    name: file.slice(0, -".yaml".length),
  }));
}

/** A script of a case. */
export interface GoldenScript {
  /** Of the file that holds it. */
  readonly file: string;
  readonly description: string;
  readonly script: Script;
  /** The state that it leads to. */
  readonly desired: Pipeline["desired"];
}

/** Runs a case: each script is computed when the one before it has been applied. */
export async function* runCase(
  { name, description, configuration, objects, steps = [] }: GoldenCase,
  backend: Backend,
): AsyncGenerator<GoldenScript> {
  const mode = backend.traits.name;
  const settings = { ...DEFAULTS.nftables, ...configuration.nftables };
  const pipeline = new Pipeline({
    mode,
    configuration: {
      ...configuration,
      nftables: settings,
      iptables: { ...DEFAULTS.iptables, ...settings },
      signpost: { ...DEFAULTS.signpost, ...configuration.signpost },
    },
  });
  const { desired } = pipeline;
  const state = new Map(objects.map((object) => [idOf(object), object]));
  load(pipeline, state);
  const full = backend.dataplane.full(desired);
  await backend.dataplane.apply(full);
  yield { file: `${name}.${mode}`, description, script: full, desired };
  for (const [i, step] of steps.entries()) {
    for (const id of step.delete ?? []) {
      if (!state.delete(id)) throw new Error(`${name}: there is no ${id}`);
    }
    for (const object of step.apply ?? []) state.set(idOf(object), object);
    const { change } = load(pipeline, state);
    const script = atOnce(backend.dataplane.changing(change, desired));
    if (!script) throw new Error(`${name}: step ${i + 1} needs a full script`);
    await backend.dataplane.apply(script);
    yield { file: `${name}.${i + 1}.${mode}`, description: step.description, script, desired };
  }
}

function load(pipeline: Pipeline, state: ReadonlyMap<string, ApiObject>) {
  const step = pipeline.load([...state.values()]);
  const [refusal] = step.refused;
  if (refusal) throw new Error(`${refusal.kind} ${refusal.key}: ${refusal.reason}`);
  return step;
}

function idOf(object: ApiObject): string {
  const { namespace = "default", name } = object.metadata;
  return `${object.kind} ${namespace}/${name}`;
}
