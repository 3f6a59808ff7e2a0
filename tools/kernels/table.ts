/**
 * Renders the table of kernels, for the terminal and for documents.
 *
 * @module
 */
import { marks, replaceMarked } from "../marked.ts";
import { SOLE_PARTS } from "./catalog.ts";
import { BACKENDS, LIFE_PARTS, type RunResult, type StepResult } from "./steps.ts";

/** Of the marks around the table in a document. */
const NAME = "kernels";

const HEAD = ["name", "kernel", "nft", ...BACKENDS, "minutes"];

/** Renders the rows as Markdown, with columns as wide as their longest cell. */
export function renderTable(results: readonly RunResult[]): string {
  const rows = [HEAD, ...results.map(rowOf)];
  const widths = HEAD.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const lines = rows.map((row) =>
    `| ${widths.map((width, i) => (row[i] ?? "").padEnd(width)).join(" | ")} |`
  );
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [lines[0], rule, ...lines.slice(1)].join("\n") + "\n";
}

/** Lists failed steps and runs that were left out: a line for all steps with the same reason. */
export function renderProblems(results: readonly RunResult[]): string[] {
  return results.flatMap(({ name, steps, leftOut }) => {
    if (leftOut !== undefined) return [`left out: ${name}: ${leftOut}`];
    const failed = Map.groupBy(steps.filter(({ passed }) => !passed), ({ detail }) => detail);
    return [...failed].map(([detail, group]) => {
      const words = group.map(({ backend, part }) => `${backend} ${part}`).join(", ");
      return `failed: ${name}: ${words}: ${detail}`;
    });
  });
}

/** Counts the steps that passed and failed. Runs that were left out have none. */
export function countSteps(results: readonly RunResult[]): { passed: number; failed: number } {
  const steps = results.flatMap((result) => result.steps);
  const passed = steps.filter((step) => step.passed).length;
  return { passed, failed: steps.length - passed };
}

/** Returns true if a document has the marks for the table. */
export function hasTable(document: string): boolean {
  return document.includes(marks(NAME)[0]);
}

/**
 * Puts a text between a document's marks.
 *
 * @throws {Error} if the marks are not there
 */
export function replaceTable(document: string, text: string): string {
  return replaceMarked(document, { name: NAME, text });
}

function rowOf({ name, version, facts, steps, seconds, leftOut }: RunResult): string[] {
  const cells = BACKENDS.map((backend) => {
    const own = steps.filter((step) => step.backend === backend);
    return [flowsCell(own), daemonCell(own)].filter((cell) => cell !== "").join(", ");
  });
  return [
    name,
    facts?.release ?? version,
    facts ? /\d+(?:\.\d+)+/.exec(facts.nft)?.[0] ?? "?" : "",
    ...cells,
    leftOut === undefined ? (seconds / 60).toFixed(1) : "left out",
  ];
}

function flowsCell(steps: readonly StepResult[]): string {
  const flows = steps.find(({ part }) => part === "flows");
  if (flows === undefined) return "";
  return /^\d+\/\d+/.exec(flows.detail)?.[0] ?? "failed";
}

function daemonCell(steps: readonly StepResult[]): string {
  const own = steps.filter(({ part }) => part !== "flows");
  if (own.length === 0) return "";
  const failed = [...LIFE_PARTS, ...SOLE_PARTS].filter((part) =>
    own.some((step) => step.part === part && !step.passed)
  );
  if (failed.length > 0) return `failed: ${failed.join(", ")}`;
  const isAll = own.length === LIFE_PARTS.length;
  return isAll ? "works" : own.map(({ part }) => part).join(", ");
}
