/**
 * Gathers facts of the take-over, and its faults.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { type Target, targetsOf } from "./probes.ts";

/** Who answers, by what is tried, as `census` tells. */
export type Answers = ReadonlyMap<string, string>;

/** Lines for people, told as they come. */
export class Findings {
  readonly #say: (line: string) => void;
  readonly #facts: string[] = [];
  readonly #problems: string[] = [];

  /** @param say prints a line */
  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  /** Returns the faults; empty if there are none. */
  get problems(): readonly string[] {
    return this.#problems;
  }

  /** Tells a fact. */
  fact(...lines: readonly string[]): void {
    this.#facts.push(...lines);
    for (const line of lines) this.#say(line);
  }

  /** Tells what is wrong. */
  problem(...lines: readonly string[]): void {
    this.#problems.push(...lines);
    for (const line of lines) this.#say(`wrong: ${line}`);
  }

  /** Judges each answer by what is tried. */
  judge(answers: Answers, families: readonly Family[], isRight: typeof isSignposts): void {
    for (const family of families) {
      for (const target of targetsOf(family)) {
        const what = `IPv${family} ${target.what}`;
        const answer = answers.get(what) ?? "not tried";
        if (!isRight(answer, target)) this.problem(`${what}: ${answer}`);
      }
    }
  }

  /** All of it. */
  toString(): string {
    return [...this.#facts, ...this.#problems.map((line) => `wrong: ${line}`)].join("\n");
  }
}

/** Returns true if it is what signpost's rules make of it. */
export function isSignposts(answer: string, { isServed }: Pick<Target, "isServed">): boolean {
  return isServed ? answer === "endpoint" : isNoAnswer(answer);
}

/** Without `kube-ipvs0` an address is elsewhere: the packet leaves (`world`), or a rule drops it. */
export function isNoAnswer(answer: string): boolean {
  const words = answer.replaceAll("UDP", "").match(/[^ ()/]+/g) ?? [];
  return words.length > 0 &&
    words.every((word) => /^(?:refused|by|E[A-Z]+|silence|world)$/.test(word));
}

/** The rows of a table: what is tried, and who answers each time. */
export function tableOf(columns: readonly Answers[]): string[] {
  const rows = new Set(columns.flatMap((column) => [...column.keys()]));
  return [...rows].map((what) =>
    `| ${[what, ...columns.map((column) => column.get(what) ?? "")].join(" | ")} |`
  );
}
