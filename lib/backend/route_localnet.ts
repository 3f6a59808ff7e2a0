/**
 * `net.ipv4.conf.all.route_localnet`: node ports on 127.0.0.1 need it, and it lets neighbours reach
 * what listens there (CVE-2020-8558) where no rule keeps them out.
 *
 * @module
 */
import { messageOf } from "../model/values/errors.ts";
import type { Clock, Logger, ProcessRunner } from "../model/ports/ports.ts";
import { Sysctl } from "./sysctl.ts";

/** As sysctl(8) has it. */
export const ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet";

/**
 * The value that other programs look for. Nothing tells who has set it, and others may need it: it is
 * never set back.
 */
const ON = "1";

/** Milliseconds that a sync waits for the setting. */
const PATIENCE = 1_000;

/** What it takes to set it. */
export interface RouteLocalnetOptions {
  readonly runner: ProcessRunner;
  readonly logger: Logger;
  readonly clock: Pick<Clock, "sleep">;
}

/**
 * Switches it on.
 *
 * @throws {Error} if it cannot be set
 */
export async function setRouteLocalnet(runner: ProcessRunner): Promise<void> {
  const sysctl = new Sysctl(runner);
  if (await sysctl.read(ROUTE_LOCALNET).catch(() => "") !== ON) {
    await sysctl.write(ROUTE_LOCALNET, ON);
  }
}

/**
 * Switches it on beside the rules. Where that is refused (a read-only /proc/sys), one warning tells;
 * all other rules do not need it. A `sysctl` that hangs holds no sync up.
 */
export function routeLocalnet(
  { runner, logger, clock }: RouteLocalnetOptions,
): () => Promise<void> {
  let told = false;
  let running: Promise<void> | undefined;
  const set = async () => {
    try {
      await setRouteLocalnet(runner);
    } catch (error) {
      if (told) return;
      told = true;
      const reason = messageOf(error);
      logger.warn(
        `node ports do not answer on localhost: ${ROUTE_LOCALNET} cannot be set; set it to 1, or iptables.localhostNodePorts to false`,
        { error: reason },
      );
    } finally {
      running = undefined;
    }
  };
  return async () => {
    running ??= set();
    const over = new AbortController();
    await Promise.race([running, clock.sleep(PATIENCE, over.signal)]);
    over.abort();
  };
}

/**
 * Warns of a setting that is still on though no node port answers on localhost. Never rejects.
 *
 * @param options `guarded`: rules of signpost keep neighbours out for as long as they are there
 */
export async function warnOfRouteLocalnet(
  { runner, logger, guarded }: Pick<RouteLocalnetOptions, "runner" | "logger"> & {
    readonly guarded: boolean;
  },
): Promise<void> {
  const value = await new Sysctl(runner).read(ROUTE_LOCALNET).catch(() => "0");
  if (value === "0") return;
  const danger = guarded
    ? "only signpost's rules keep neighbours from what listens on 127.0.0.1"
    : "neighbours can reach what listens on 127.0.0.1";
  logger.warn(
    `no node port answers on localhost, and ${ROUTE_LOCALNET} is still ${value}: ${danger}; ` +
      `if nothing else needs it, run sysctl -w ${ROUTE_LOCALNET}=0`,
  );
}
