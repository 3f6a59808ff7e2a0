/**
 * `net.ipv4.conf.all.route_localnet`: node ports on 127.0.0.1 need it, and it lets neighbours reach
 * what listens there (CVE-2020-8558) where no rule keeps them out.
 *
 * @module
 */
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
 * Switches it on beside the rules. If that is refused (a read-only /proc/sys), a node finding says that the
 * setting is off; all other rules do not need it. A `sysctl` that hangs holds no sync up.
 */
export function routeLocalnet(
  { runner, clock }: RouteLocalnetOptions,
): () => Promise<void> {
  let running: Promise<void> | undefined;
  return async () => {
    running ??= setRouteLocalnet(runner).catch(() => {}).finally(() => running = undefined);
    const over = new AbortController();
    await Promise.race([running, clock.sleep(PATIENCE, over.signal)]);
    over.abort();
  };
}

/** Warns of a setting that is still on when no rule of signpost keeps neighbours out. Never rejects. */
export async function warnOfRouteLocalnet(
  { runner, logger }: { readonly runner: ProcessRunner; readonly logger: Logger },
): Promise<void> {
  const value = await new Sysctl(runner).read(ROUTE_LOCALNET).catch(() => "0");
  if (value === "0") return;
  logger.warn(
    `no node port answers on localhost, and ${ROUTE_LOCALNET} is still ${value}: neighbours can reach ` +
      `what listens on 127.0.0.1; ` +
      `if nothing else needs it, run sysctl -w ${ROUTE_LOCALNET}=0`,
  );
}
