import { assert, assertEquals } from "@std/assert";
import { comparing } from "../../../../lib/backend/nftables/kernel/compare.ts";
import {
  type Contents,
  desiredObjects,
  parsingListing,
  readingObjects,
} from "../../../../lib/backend/nftables/kernel/contents.ts";
import { Pipeline } from "../../../support/pipeline.ts";

const SERVICES = 20_000;
/** Where frontends without endpoints are. */
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
    const lines = [...elements, ...name === SET ? [[EXTRA, "goto none"]] : []]
      .filter(([key]) => key !== MISSING || name !== SET)
      .map(([key, data]) => data === "" ? key : `${key} : ${data}`);
    const all = lines.length === 0 ? "" : `\t\telements = { ${lines.join(",\n\t\t\t     ")} }\n`;
    return `\t${head} ${name} {\n${statements.map((each) => `\t\t${each}\n`).join("")}${all}\t}\n`;
  });
  return `table inet signpost {\n${blocks.join("")}}\n`;
}

Deno.test("a large table is read and compared in turns: others work between two of them", () => {
  const pipeline = new Pipeline();
  pipeline.load(
    Array.from({ length: SERVICES }, (_, i) => ({
      kind: "Service",
      metadata: { name: `s${i}` },
      spec: { clusterIP: `10.96.${i >> 8}.${i & 255}`, ports: [{ port: 80 }] },
    })),
  );
  const desired = count(readingObjects(desiredObjects(pipeline.desired)));
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
