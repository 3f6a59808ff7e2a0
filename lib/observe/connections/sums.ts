/**
 * Adds up what frontends have counted, however often their elements or rules are written again: such a
 * one counts from nothing. A sum never falls, and no connection counts twice.
 *
 * @module
 */
import type { FrontendCount } from "../../model/kernel/connections.ts";

/** Where connections that were not known before are added. */
export type AddConnections = (frontend: Omit<FrontendCount, "connections">, more: number) => void;

/** Readings after which the word of an element that went comes no more. */
export const LATEST = 20;

/**
 * What is known of a frontend: the last counts of its elements that went, as they are told, and what the present
 * one had at the last reading. Together they are never more than what came, in whatever order they are told.
 */
interface Account {
  readonly service: string;
  /** What its element had counted at the last reading; 0 after a word, which may be about this one. */
  read: number;
  /** What was added beyond that: `read` was of a later element than the one that was told of. */
  ahead: number;
  /** What elements had counted that went without a word: it is part of the words that are still to come. */
  untold: number;
  /** Readings since the last one of these. */
  age: number;
  /** At the last reading its element had gone or counted less, and nothing was told of it yet. */
  isBehind: boolean;
}

/** What each frontend has counted. What it had before the first reading is not added. */
export class ConnectionSums {
  readonly #add: AddConnections;
  readonly #tellsGone: boolean;
  /** `undefined` until the first reading. */
  #accounts: Map<string, Account> | undefined;
  /** By frontend, the counts of the reading that is under way; `undefined`: none is. */
  #reading: Map<string, FrontendCount> | undefined;
  /** Frontends that went while the kernel was read: which count the listing has is not known. */
  readonly #gone = new Set<string>();

  /**
   * @param add takes what is new
   * @param options.tellsGone whether `gone` is called for frontends that are written again, though late or,
   *   where events are lost, never
   */
  constructor(add: AddConnections, { tellsGone }: { readonly tellsGone: boolean }) {
    this.#add = add;
    this.#tellsGone = tellsGone;
  }

  /** A frontend goes or is written again; this it had counted. */
  gone(count: FrontendCount): void {
    const { frontend, service, connections } = count;
    if (this.#reading) {
      this.#reading.delete(frontend);
      this.#gone.add(frontend);
    }
    if (!this.#accounts) return;
    const account = this.#accounts.get(frontend) ?? newAccount(service);
    // Of a Service that has lost the frontend to another one nothing is known any more.
    if (account.service !== service) return;
    this.#accounts.set(frontend, account);
    const known = Math.min(account.untold, connections);
    account.untold -= known;
    account.isBehind = false;
    this.#count(count, { account, more: connections - known - account.read });
    account.read = 0;
    this.#forgetSettled(frontend, account);
  }

  /** The kernel is about to be read. */
  begin(): void {
    this.#reading = new Map();
    this.#gone.clear();
  }

  /** A count of the listing. */
  seen(count: FrontendCount): void {
    // Most frontends of a node never meet a connection, and take no memory here.
    if (count.connections > 0 && !this.#gone.has(count.frontend)) {
      this.#reading?.set(count.frontend, count);
    }
  }

  /** All of the listing was seen. Yields after each frontend; `gone` may be called meanwhile. */
  *end(): Generator<undefined, void> {
    const now = this.#reading ?? new Map<string, FrontendCount>();
    const accounts = this.#accounts ?? new Map<string, Account>();
    for (const [frontend, account] of accounts) {
      if (!this.#follows(account, now.get(frontend))) now.delete(frontend);
      this.#forgetSettled(frontend, account);
      yield;
    }
    for (const [frontend, count] of now) {
      const known = accounts.get(frontend);
      const account = known?.service === count.service ? known : newAccount(count.service);
      accounts.set(frontend, account);
      if (this.#accounts) this.#count(count, { account, more: count.connections - account.read });
      account.read = count.connections;
      // Of the first one nothing is added: what went meanwhile must not stay in an account.
      if (this.#accounts) yield;
    }
    this.#accounts = accounts;
    this.#reading = undefined;
  }

  /** The reading failed. */
  fail(): void {
    this.#reading = undefined;
  }

  /** @returns whether a count can be taken; otherwise the word of its element is waited for, until the next reading */
  #follows(account: Account, count: FrontendCount | undefined): boolean {
    const isOpen = account.untold > 0 || (account.ahead > 0 && account.read === 0);
    if (isOpen && ++account.age > LATEST) account.untold = account.ahead = 0;
    const isSame = count?.service === account.service && count.connections >= account.read;
    if (isSame || account.read === 0) return true;
    if (this.#tellsGone && !account.isBehind) {
      account.isBehind = true;
      return false;
    }
    if (this.#tellsGone) {
      account.untold += account.read;
      account.age = 0;
    }
    account.read = 0;
    account.isBehind = false;
    return true;
  }

  #count(count: FrontendCount, { account, more }: { account: Account; more: number }): void {
    const fresh = Math.max(0, more - account.ahead);
    account.ahead += fresh - more;
    if (more < 0) account.age = 0;
    if (fresh > 0) this.#add(count, fresh);
  }

  #forgetSettled(frontend: string, { read, ahead, untold }: Account): void {
    if (read === 0 && ahead === 0 && untold === 0) this.#accounts?.delete(frontend);
  }
}

function newAccount(service: string): Account {
  return { service, read: 0, ahead: 0, untold: 0, age: 0, isBehind: false };
}
