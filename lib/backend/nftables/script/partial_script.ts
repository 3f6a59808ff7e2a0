/**
 * The script of a step.
 *
 * @module
 */
import type { Script } from "../../../model/kernel/dataplane.ts";
import { append } from "../../../model/values/lists.ts";
import type { Operations, References } from "./diff.ts";
import { inParts, isOnePart } from "./parts.ts";
import { countOperations, renderingStep } from "./script.ts";

/** A step from what was applied last, with what holds once the kernel has taken it. */
export interface PartialScript extends Script {
  readonly kind: "partial";
  /** The text, cut into transactions. */
  readonly transactions: readonly string[];
  /** New counts of the shared objects whose count changed. */
  readonly references: References;
  /** By set or map, how many elements more there are. */
  readonly elements: ReadonlyMap<string, number>;
  /** By chain that is new or changed, how many rules it has; by set or map, 0; `undefined`: gone. */
  readonly rules: ReadonlyMap<string, number | undefined>;
}

/** Of a step that changes none of what is known. */
export const NO_COUNTS: Pick<PartialScript, "references" | "elements" | "rules"> = {
  references: new Map(),
  elements: new Map(),
  rules: new Map(),
};

/**
 * Writes a step; one of very many elements in parts: nft takes 2 kB for each one of a transaction.
 *
 * @param operations the step
 * @param options what holds then; `weight`: elements of a part, more or less
 * @yields where other work can be done
 */
export function* toPartialScript(
  operations: Operations,
  { weight, ...counts }: Pick<PartialScript, "references" | "elements" | "rules"> & {
    readonly weight: number;
  },
): Generator<undefined, PartialScript> {
  const parts = isOnePart(operations, weight) ? [operations] : inParts(operations, weight);
  const transactions: string[] = [];
  for (const part of parts) append(transactions, yield* renderingStep(part));
  const text = transactions.join("");
  return {
    kind: "partial",
    transactions,
    text,
    bytes: text.length,
    operations: countOperations(operations),
    ...counts,
  };
}
