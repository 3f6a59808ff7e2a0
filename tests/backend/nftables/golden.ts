/**
 * Golden cases: YAML with a cluster's objects and some steps in, nft scripts out.
 *
 * `tests/testdata/nftables/NAME.yaml` gives `NAME.nft`, the full script, and `NAME.N.nft`, the
 * partial script of the Nth step.
 *
 * @module
 */
import { parse } from "@std/yaml";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/kernel/nft.ts";
import type { ProcessRunner } from "../../../lib/model/ports/ports.ts";
import { DEFAULTS } from "../../support/configuration.ts";
import { type ApiObject, Pipeline, type PipelineOptions } from "../../support/pipeline.ts";

/** The folder of the cases. */
export const FOLDER = new URL("../../testdata/nftables/", import.meta.url);

/** What happens after the first state. */
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
  readonly configuration: NonNullable<PipelineOptions["configuration"]>;
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
  readonly text: string;
}

/** Runs a case: each script is computed when the one before it has been applied. */
export async function* runCase(
  { name, description, configuration, objects, steps = [] }: GoldenCase,
  runner: ProcessRunner,
): AsyncGenerator<GoldenScript> {
  const nftables = { ...DEFAULTS.nftables, ...configuration.nftables };
  const pipeline = new Pipeline({ configuration: { ...configuration, nftables } });
  const dataplane = new NftablesDataplane(new Nft(runner));
  const state = new Map(objects.map((object) => [idOf(object), object]));
  load(pipeline, state);
  const full = dataplane.full(pipeline.desired);
  await dataplane.apply(full);
  yield { file: `${name}.nft`, description, text: full.text };
  for (const [i, step] of steps.entries()) {
    for (const id of step.delete ?? []) {
      if (!state.delete(id)) throw new Error(`${name}: there is no ${id}`);
    }
    for (const object of step.apply ?? []) state.set(idOf(object), object);
    const { change } = load(pipeline, state);
    const script = dataplane.partial(change, pipeline.desired);
    if (!script) throw new Error(`${name}: step ${i + 1} needs a full script`);
    await dataplane.apply(script);
    yield { file: `${name}.${i + 1}.nft`, description: step.description, text: script.text };
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

/** A runner whose every program succeeds and says nothing. */
export const SILENT_RUNNER: ProcessRunner = {
  run: () => Promise.resolve({ code: 0, stdout: "", stderr: "" }),
};
