/**
 * Counts signpost's rules in the kernel from the applied scripts.
 *
 * @module
 */
import type { Family } from "../../../model/values/address.ts";
import type { FamilyInput, TableInput } from "../script/ruleset.ts";

/** The number of rules of one table, in all and in the last script. */
export interface RuleCount {
  readonly family: Family;
  readonly table: string;
  readonly total: number;
  readonly written: number;
}

/** Counts the rules of one table of one family. */
class TableCount {
  readonly #chains = new Map<string, number>();
  #total = 0;

  /** @returns the number of rules after this input */
  apply({ chains, deleted, inserted, appended, removed }: TableInput): number {
    for (const chain of removed) this.#set(chain, 0);
    for (const [chain, rules] of chains) this.#set(chain, rules.length);
    for (const rule of deleted) this.#add(rule, -1);
    for (const rule of [...inserted, ...appended]) this.#add(rule, 1);
    return this.#total;
  }

  /** @param rule `chain rule` */
  #add(rule: string, step: 1 | -1): void {
    const chain = rule.slice(0, rule.indexOf(" "));
    this.#set(chain, (this.#chains.get(chain) ?? 0) + step);
  }

  #set(chain: string, count: number): void {
    this.#total += count - (this.#chains.get(chain) ?? 0);
    if (count === 0) this.#chains.delete(chain);
    else this.#chains.set(chain, count);
  }
}

/** Counts the rules of all tables. */
export class RuleCounts {
  readonly #tables = new Map<string, TableCount>();
  readonly #counts = new Map<string, RuleCount>();

  /** Returns the counts after the last script. */
  get counts(): Iterable<RuleCount> {
    return this.#counts.values();
  }

  /** Notes an applied script of a family. A full one starts the counts again. */
  applied(kind: "full" | "partial", { family, tables }: FamilyInput): void {
    for (const [table, inputs] of Map.groupBy(tables, (input) => input.table)) {
      const key = `${family} ${table}`;
      const count = kind === "full" ? new TableCount() : this.#tables.get(key) ?? new TableCount();
      this.#tables.set(key, count);
      let [written, total] = [0, 0];
      for (const input of inputs) {
        const { chains, inserted, appended } = input;
        written += inserted.length + appended.length +
          [...chains.values()].reduce((sum, rules) => sum + rules.length, 0);
        total = count.apply(input);
      }
      this.#counts.set(key, { family, table, total, written });
    }
  }
}
