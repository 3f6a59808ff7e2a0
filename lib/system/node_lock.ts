/** Adapter: the lock is an abstract Unix socket of the network namespace. A second socket names its holder. */
import type { LockHolder, NodeLock } from "../model/ports/runtime.ts";
import type { ProcessRunner } from "../model/ports/ports.ts";

/** Shown by `ss -xl` as `@signpost`. */
const PATH = "\0signpost";

export class AbstractSocketLock implements NodeLock {
  #isHeld = false;

  /** @param runner for `cat`: Deno reads files below /proc only if everything is allowed */
  constructor(private readonly runner: ProcessRunner) {}

  take({ pid, version, since }: LockHolder): boolean {
    if (this.#isHeld) return true;
    try {
      bind(PATH);
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) return false;
      throw error;
    }
    this.#isHeld = true;
    try {
      bind(`${PATH}/${pid}/${version}/${since}`);
    } catch {
      // The lock is held, but its holder has no name.
    }
    return true;
  }

  async holder(): Promise<LockHolder | undefined> {
    try {
      return parseHolders((await this.runner.run(["cat", "/proc/net/unix"])).stdout);
    } catch {
      return undefined;
    }
  }
}

/** Binds a socket that stays until this process ends. */
function bind(path: string): void {
  Deno.listenDatagram({ transport: "unixpacket", path });
}

/** The end of a line of `/proc/net/unix`: `@` stands for the zero byte. */
const HOLDER =
  / @signpost\/(?<pid>\d{1,9})\/(?<version>[\w.+-]{1,64})\/(?<since>[\dTZ:.-]{1,32})$/gm;

/** Returns the one holder that `/proc/net/unix` names. Any process may bind such a name, so two names are none. */
export function parseHolders(text: string): LockHolder | undefined {
  const [first, second] = text.matchAll(HOLDER);
  if (!first?.groups || second) return undefined;
  const { pid = "", version = "", since = "" } = first.groups;
  return { pid: Number(pid), version, since };
}
