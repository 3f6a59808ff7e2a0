/** Facts of a node for tests of its findings. */
import type { NodeFacts } from "../../lib/findings/facts.ts";
import type { Finding } from "../../lib/model/status.ts";
import { configuration } from "../support/configuration.ts";
import { traitsOf } from "../support/modes.ts";
import { type ApiObject, NODE_NAME, Pipeline, type PipelineOptions } from "../support/pipeline.ts";

/** The findings of a check, without its pauses. */
export function listOf(check: Iterable<Finding | undefined>): Finding[] {
  return [...check].filter((each) => each !== undefined);
}

/** Facts of a node that has these objects. */
export function factsOf(
  objects: readonly ApiObject[],
  { facts, ...options }: PipelineOptions & { readonly facts?: Partial<NodeFacts> } = {},
): NodeFacts {
  const pipeline = new Pipeline(options);
  pipeline.load(objects);
  const { cache, desired } = pipeline;
  return {
    nodeName: NODE_NAME,
    configuration: configuration(options.configuration),
    traits: traitsOf(options.mode ?? "nftables"),
    interfaceAddresses: cache.node?.addresses ?? [],
    objects: { node: cache.node, desired },
    ...facts,
  };
}
