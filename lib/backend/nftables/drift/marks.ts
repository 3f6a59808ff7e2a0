/**
 * Marks that tell our own transactions from those of other programs.
 *
 * @module
 */
import { parseKey, printKey } from "../script/keys.ts";
import { TABLE } from "../script/objects.ts";
import { tableSet } from "../script/sets.ts";

const TRANSACTIONS = tableSet("transactions", {});

/**
 * A mark is an element that times out at once, so it leaves nothing behind. Deleting something
 * instead would have `nft` wait for the kernel's clean-up: 10 ms for each script.
 */
const TIMEOUT = "10ms";

const LINE = new RegExp(`^add element ${TABLE} ${TRANSACTIONS.name} \\{ (\\S+)`);

/** Numbers our own transactions, without a gap those that the kernel took. */
export class Marks {
  readonly #first: number;
  #next: number;
  /** The next number is in a script that may be under way. */
  #isGiven = false;

  /** @param first the number of the first mark: random, so that another process uses other ones */
  constructor(first: number) {
    this.#first = first;
    this.#next = first;
  }

  /** The commands that mark one more transaction as ours; where one was not taken, with its number. */
  next(): string {
    const mark = printKey({ type: "mark", mark: this.#next });
    this.#isGiven = true;
    return `add element ${TABLE} ${TRANSACTIONS.name} { ${mark} timeout ${TIMEOUT} }\n`;
  }

  /** The kernel has taken a transaction. */
  taken(): void {
    if (this.#isGiven) this.#next++;
    this.#isGiven = false;
  }

  /** Returns true if we made this mark; the monitor may tell of it before nft has ended. */
  isOwn(mark: number): boolean {
    return mark >= this.#first && (mark < this.#next || (this.#isGiven && mark === this.#next));
  }
}

/** The mark that a line of `nft monitor` tells of. */
export function parseMark(line: string): number | undefined {
  const [, mark] = LINE.exec(line) ?? [];
  const key = mark === undefined ? undefined : parseKey(TRANSACTIONS, mark);
  return key?.type === "mark" ? key.mark : undefined;
}
