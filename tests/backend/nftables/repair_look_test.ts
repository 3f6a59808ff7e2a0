import { assertEquals } from "@std/assert";
import { Look, type LookOptions } from "../../../lib/backend/nftables/repair.ts";
import { realClock } from "../../support/clock_and_log.ts";
import { stateOf } from "../../conntrack/states.ts";

/** A table that should have a map, and does not. */
function lookAt(dataplane: { readonly applied: symbol | undefined; mayDiffer: boolean }) {
  return new Look({
    nft: {
      listStructure: () =>
        Promise.resolve("table inet signpost {\n\tchain services {\n\t\treturn\n\t}\n}\n"),
      listTable: () => Promise.resolve(""),
    },
    dataplane: Object.defineProperty(Object.assign(dataplane, { isLarge: true }), "ruleCounts", {
      get: () => {
        // A full script begins while the table is looked at.
        if (dataplane.applied === undefined) dataplane.mayDiffer = true;
        return new Map([["gone", 0]]);
      },
    }) as LookOptions["dataplane"],
    desired: stateOf([]),
    clock: { ...realClock, sleep: () => Promise.resolve() },
  });
}

Deno.test("what is missing counts, but not while a full script is applied, however long that takes", async () => {
  const applied = Symbol("applied");
  const missing = { missing: "gone", added: "", by: "" };
  assertEquals(await lookAt({ applied, mayDiffer: false }).contents(), missing);
  assertEquals(await lookAt({ applied, mayDiffer: true }).structure(), undefined);
  assertEquals(await lookAt({ applied: undefined, mayDiffer: false }).structure(), undefined);
});
