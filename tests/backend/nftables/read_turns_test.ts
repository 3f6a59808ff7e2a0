import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Look, repairScript } from "../../../lib/backend/nftables/repair.ts";
import { Touched } from "../../../lib/backend/nftables/transactions.ts";
import { type Delta, tableOf } from "../../../lib/backend/nftables/delta.ts";
import { toPartialScript } from "../../../lib/backend/nftables/write.ts";
import { comparing } from "../../../lib/backend/nftables/compare.ts";
import { type Contents, parsingListing, readingTable } from "../../../lib/backend/nftables/read.ts";
import { LongTurns } from "../../support/clock_and_log.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";
import { clusterObjects } from "../../support/cluster.ts";

const SERVICES = 20_000;
/** The set of frontends without endpoints. */
const SET = "no-endpoints4";
const [LISTED, MISSING, EXTRA] = [
  "10.96.0.0 . tcp . 80",
  "10.96.0.1 . tcp . 80",
  "10.97.0.1 . tcp . 80",
];

/** Does the work, and counts its turns. */
function count<T>(work: Generator<undefined, T>): { readonly turns: number; readonly result: T } {
  for (let turns = 1;; turns++) {
    const { done, value } = work.next();
    if (done) return { turns, result: value };
  }
}

/** The table as `nft` prints it, but for what differs. */
function listingOf({ sets, declarations }: Contents): string {
  const blocks = [...sets].map(([name, elements]) => {
    const [head = "", ...statements] = (declarations.get(name) ?? "").split("; ");
    const held = [...elements].map(([key, { data }]) => [key, data]);
    const lines = [...held, ...name === SET ? [[EXTRA, "goto none"]] : []]
      .filter(([key]) => key !== MISSING || name !== SET)
      .map(([key, data]) => data === "" ? key : `${key} : ${data}`);
    const all = lines.length === 0 ? "" : `\t\telements = { ${lines.join(",\n\t\t\t     ")} }\n`;
    return `\t${head} ${name} {\n${statements.map((each) => `\t\t${each}\n`).join("")}${all}\t}\n`;
  });
  return `table inet signpost {\n${blocks.join("")}}\n`;
}

/** A state of very many Services. */
function manyServices(): Pipeline {
  const pipeline = new Pipeline();
  pipeline.load([...clusterObjects({ services: SERVICES, endpoints: 0 })]);
  return pipeline;
}

Deno.test("a large table is read and compared in turns: others work between two of them", () => {
  const pipeline = manyServices();
  const table = count(tableOf(pipeline.desired));
  assert(table.turns >= SERVICES / 2_000, `${table.turns} turns`);
  const desired = count(readingTable(table.result));
  assert(desired.turns >= SERVICES / 2_000, `${desired.turns} turns`);
  const held = count(parsingListing(listingOf(desired.result)));
  assert(held.turns >= SERVICES / 2_000, `${held.turns} turns`);
  if (held.result === undefined) throw new Error("there is no table");
  assertEquals(held.result.sets.get(SET)?.has(LISTED), true);
  const differences = count(comparing(desired.result, held.result));
  assert(differences.turns >= SERVICES / 10_000, `${differences.turns} turns`);
  // The listing has no comments: those are "wrong".
  assertEquals(
    differences.result.filter((each) => each.in === SET && each.type !== "wrong")
      .map(({ type, key }) => [type, key]),
    [["missing", MISSING], ["extra", EXTRA]],
  );
});

Deno.test("a large table is compared and repaired in turns", async () => {
  const { desired } = manyServices();
  const listing = listingOf(atOnce(readingTable(atOnce(tableOf(desired)))));
  const nft = {
    listTable: () => Promise.resolve(listing),
    listStructure: () => Promise.resolve(listing),
  };
  const clock = new LongTurns();
  const look = new Look({ nft, dataplane: { ruleCounts: new Map() }, desired, clock });
  assertStringIncludes((await look.contents())?.added ?? "", `element of ${SET}`);
  const { turns } = clock;
  assert(turns >= 5 * SERVICES / 2_000, `${turns} turns`);
  const touched = new Touched();
  const repaired: number[] = [];
  const dataplane = {
    isLarge: false,
    *repairing(delta: Delta) {
      repaired.push(delta.addElements.length);
      return yield* toPartialScript(delta, 1_000);
    },
  };
  await repairScript({ nft, dataplane, touched, clock }, desired);
  // The listing has no comments, so all elements differ.
  assertEquals(repaired, [SERVICES]);
  assert(clock.turns - turns >= 5 * SERVICES / 2_000, `${clock.turns - turns} turns`);
});
