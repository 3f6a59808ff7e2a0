/**
 * A soak under attack: pods flood the health port with idle connections, HTTP/2 and requests without
 * end, a user floods the metrics port, the page, a node port on loopback and the daemon's lock, and a
 * tenant makes and removes costly objects, all at once. Meanwhile probes and another tenant's changes are timed.
 *
 *     deno task soak attacks [SECONDS]
 */
import type { Background } from "../support/background.ts";
import { NODE } from "../support/topology.ts";
import { COSTLY_KINDS } from "../fuzz/costly.ts";
import {
  ATTACKED,
  ATTACKED_CONFIG,
  ATTACKER,
  ATTACKS,
  denoIn,
  every,
  type Figures,
  formatFigures,
  observe,
  startAttack,
  startHolding,
} from "./hostile/attacks.ts";
import { giveWay, removeOthers, sleep } from "./soak_tenants.ts";
import { METRICS_PORT, Stage } from "./stage.ts";

/** Connections of each attack. One Service may have fewer half-closed ones. */
const CONNECTIONS = { h2: 500, "/healthz": 500, idle: 2_000, half: 2_100 };
/** Connections that ask for the metrics and the page, and read nothing. */
const READERS = 100;
/** Of costly objects. */
const SIZE = 4_000;
/** Milliseconds. */
const OBJECTS = 2_000;
/** From the last attack until the end is looked at. */
const SETTLE = 10_000;

/** Connects to the daemon's lock for ever. */
const LOCK_FLOOD = `for (;;) {
  const connect = () => Deno.connect({ transport: "unix", path: "\\0signpost" });
  await Promise.allSettled(Array.from({ length: 100 }, connect));
  await new Promise((resolve) => setTimeout(resolve, 10));
}`;

/** The results under attack. */
export interface AttackReport {
  readonly figures: Figures;
  /** The answer of \`signpost verify\` at the end. */
  readonly verify: { readonly code: number; readonly stdout: string };
  readonly log: string;
}

/** Attacks a daemon for so long. @throws {Error} if it ends */
export async function soakUnderAttack(seconds: number): Promise<AttackReport> {
  await using stage = await Stage.create({ objects: ATTACKED, config: ATTACKED_CONFIG });
  await using _holding = startHolding(stage);
  await using signpost = await stage.startSynced(stage.socket);
  const figures = await observe(stage, {
    signpost,
    seconds,
    attacks: () => startAll(stage),
    beside: async (until) => {
      await every(OBJECTS, until, (round) => replaceCostly(stage, round));
      await removeOthers(stage);
    },
  });
  await sleep(SETTLE);
  const verify = await stage.run("verify");
  return { figures, verify, log: signpost.log };
}

function* startAll(stage: Stage): Generator<Background> {
  for (const attack of Object.values(ATTACKS)) {
    yield startAttack(stage, { ...attack, connections: CONNECTIONS[attack.how[0]] }, ATTACKER);
  }
  const metrics = { from: NODE, connections: READERS, to: `127.0.0.1:${METRICS_PORT}` };
  for (const path of ["/metrics", "/page.json"]) {
    yield startAttack(stage, { ...metrics, how: [path] }, ATTACKER);
  }
  yield denoIn(stage, NODE, ["eval", "--unstable-net", LOCK_FLOOD], ATTACKER);
}

/** Makes objects of one costly kind in the place of the last. */
async function replaceCostly(stage: Stage, round: number): Promise<void> {
  await removeOthers(stage);
  const kinds = Object.values(COSTLY_KINDS);
  for (const object of kinds[round % kinds.length]?.(SIZE) ?? []) {
    stage.api.store.put(object);
    await giveWay();
  }
}

/** The report, for people. */
export function formatAttackReport({ figures, verify, log }: AttackReport): string {
  const count = (pattern: RegExp) => log.match(pattern)?.length ?? 0;
  return [
    ...formatFigures(figures),
    `starts ${count(/ INFO started /g)}, failed syncs ${count(/ sync failed: /g)}`,
    `verify: exit code ${verify.code}, ${verify.stdout.trim().split("\n").at(-1)}`,
  ].map((line) => `${line}\n`).join("");
}
