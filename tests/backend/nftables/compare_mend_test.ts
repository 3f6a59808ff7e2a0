import { assertEquals } from "@std/assert";
import {
  chainPlace,
  comparing,
  mend,
  parsePlace,
  TABLE_PLACE,
} from "../../../lib/backend/nftables/compare.ts";
import {
  type Contents,
  type ElementText,
  readingTable,
} from "../../../lib/backend/nftables/read.ts";
import { tableOf } from "../../../lib/backend/nftables/delta.ts";
import { renderingDelta } from "../../../lib/backend/nftables/text.ts";
import { DEFAULTS } from "../../support/configuration.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { SERVICE } from "./web.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

/** A table's contents that a test changes. */
interface Held extends Contents {
  readonly sets: Map<string, Map<string, ElementText>>;
  readonly declarations: Map<string, string>;
  readonly chains: Map<string, readonly string[]>;
  flags: string;
  others: readonly string[];
}

/** The script, a line for each command, that mends a table after some damage; `undefined`: parts do not suffice. */
function mended(
  damage: (held: Held) => void,
  pipeline: Pipeline = new Pipeline(),
): string[] | undefined {
  pipeline.load(SERVICE);
  const desired = atOnce(tableOf(pipeline.desired));
  const { sets, declarations, chains, ...others } = atOnce(readingTable(desired));
  const held: Held = {
    ...others,
    sets: new Map([...sets].map(([name, elements]) => [name, new Map(elements)])),
    declarations: new Map(declarations),
    chains: new Map(chains),
  };
  damage(held);
  const differences = atOnce(comparing(atOnce(readingTable(desired)), held));
  const delta = mend({ desired, held, differences });
  if (delta === undefined) return undefined;
  return atOnce(renderingDelta(delta)).join("").replaceAll(
    /\{\n\s*|\n\}/g,
    (brace) => brace.includes("{") ? "{ " : " }",
  )
    .split("\n").filter((line) => line !== "");
}

function text(data: string): ElementText {
  return { data, remark: "" };
}

Deno.test("endpoints that changed their slots go back: later steps count on them", () => {
  const script = mended(({ sets }) => {
    const slots = sets.get("endpoints-tcp4");
    slots?.set("10.96.0.1 . 80 . 0", text("10.244.0.12 . 8080"));
    slots?.set("10.96.0.1 . 80 . 1", text("10.244.0.11 . 8080"));
  });
  assertEquals(script?.length, 2 + 2);
});

Deno.test("hooks of other chains, declarations and flags need a full sync", () => {
  const damages: readonly ((held: Held) => void)[] = [
    ({ chains }) => chains.set("services", ["type nat hook output priority 0 policy drop"]),
    ({ declarations }) => declarations.set("hairpins4", "set; type mark"),
    (held) => held.flags = "dormant",
    (held) => held.others = ["counter hits"],
  ];
  for (const damage of damages) assertEquals(mended(damage), undefined, String(damage));
});

Deno.test("names and keys that are not plain become no commands", () => {
  const damages: readonly ((held: Held) => void)[] = [
    ({ chains }) => chains.set("x; flush ruleset", []),
    ({ sets, declarations }) => {
      sets.set("x }\nflush", new Map());
      declarations.set("x }\nflush", "set; type mark");
    },
    ({ sets }) => sets.get("cluster-ips4")?.set("10.96.0.9 }; flush ruleset; #", text("")),
    ({ sets }) => sets.get("cluster-ips4")?.set('"lo"', text("")),
  ];
  for (const damage of damages) assertEquals(mended(damage), undefined, String(damage));
});

Deno.test("an extra element whose key no Service can have is deleted as it was listed", () => {
  assertEquals(
    mended(({ sets }) => sets.get("services4")?.set("10.96.0.9 . 47 . 80", text("drop"))),
    ["delete element inet signpost services4 { 10.96.0.9 . 47 . 80 }"],
  );
});

Deno.test("the flowtable of the fast path is added before its rules", () => {
  const acceleration = { interfaces: ["eth0"], packets: 20, services: "all" } as const;
  const signpost = { ...DEFAULTS.signpost, acceleration };
  const parts = mended(({ sets, chains }) => {
    for (const name of ["fast-path", "accelerated4", "accelerated-nodeports4"]) sets.delete(name);
    for (const name of ["accelerate", "filter-forward-established"]) chains.delete(name);
  }, new Pipeline({ configuration: { signpost } }));
  assertEquals(parts?.slice(0, 5), [
    "add flowtable inet signpost fast-path { hook ingress priority 0; counter; }",
    "add set inet signpost accelerated4 { typeof ip daddr . meta l4proto . tcp dport; }",
    "add set inet signpost accelerated-nodeports4 { typeof meta l4proto . tcp dport; }",
    "add chain inet signpost accelerate",
    "add chain inet signpost filter-forward-established { type filter hook forward priority 60; }",
  ]);
  const gone = mended(({ sets, declarations, chains }) => {
    sets.set("fast-path", new Map());
    declarations.set("fast-path", "flowtable; counter; hook ingress priority 0");
    chains.set("filter-forward-established", ["goto accelerate"]);
  });
  assertEquals(gone, [
    "flush chain inet signpost filter-forward-established",
    "delete chain inet signpost filter-forward-established",
    "delete flowtable inet signpost fast-path",
  ]);
});

Deno.test("the place of a difference is read as it was written", () => {
  assertEquals(parsePlace(TABLE_PLACE), { type: "table", name: "" });
  assertEquals(parsePlace(chainPlace("services")), { type: "chain", name: "services" });
  assertEquals(parsePlace("services4"), { type: "set", name: "services4" });
});
