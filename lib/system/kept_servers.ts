/** Adapter: HTTP ports that outlive the daemon, which ends and starts again with each new configuration. */
import { hostPort } from "../model/cluster/names.ts";
import type { HttpHandler, HttpListen, HttpListener } from "../model/ports/http.ts";
import type { Clock } from "../model/ports/ports.ts";

/** Milliseconds in which a new daemon that is not ready yet leaves the answer to the one before. */
const HAND_OVER = 10_000;

interface Kept {
  readonly listener: HttpListener;
  handler: HttpHandler;
  /** The daemon that answered has ended. */
  isFree: boolean;
}

export class KeptServers {
  readonly #open = new Map<string, Kept>();

  constructor(
    private readonly options: {
      readonly listen: HttpListen;
      readonly clock: Pick<Clock, "sleep">;
    },
  ) {}

  /** Listens, or takes an open port over. The listener's `close` leaves the port to the next daemon. */
  readonly keep: HttpListen = (address, handler) => {
    const key = hostPort(address.hostname, address.port);
    const held = this.#open.get(key);
    const kept: Kept = held?.isFree ? held : {
      // Two servers of one daemon with the same address: bind(2) refuses the second one.
      listener: this.options.listen(address, (request) => kept.handler(request)),
      handler,
      isFree: false,
    };
    if (kept === held) kept.handler = this.#handOver(held.handler, handler);
    kept.isFree = false;
    this.#open.set(key, kept);
    const close = () => Promise.resolve(void (kept.isFree = true));
    return { port: kept.listener.port, close };
  };

  #handOver(before: HttpHandler, after: HttpHandler): HttpHandler {
    let former: HttpHandler | undefined = before;
    void this.options.clock.sleep(HAND_OVER).then(() => former = undefined);
    return async (request) => {
      const answer = await after(request);
      return answer.status === 503 && former ? former(request) : answer;
    };
  }

  /** Closes all ports. */
  async [Symbol.asyncDispose](): Promise<void> {
    const open = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(open.map(({ listener }) => listener.close()));
  }
}
