import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { listFilters, suspectsOf } from "../../lib/conntrack/conntrack.ts";
import {
  ConntrackError,
  ConntrackTool,
  deletionArguments,
  deletionsOf,
  parseEntries,
} from "../../lib/conntrack/tool.ts";
import { FakeConntrack, type Flow, flow, formatFlow } from "./fake_conntrack.ts";
import { servicePort } from "./states.ts";

const A = "10.244.0.1:5353";
const VIP = "10.96.0.10:53";

function entriesOf(flows: readonly Flow[]) {
  return [...parseEntries(flows.map((each) => `${formatFlow(each)}\n`).join(""))];
}

Deno.test("flows with one destination and one endpoint are one deletion, the largest first", () => {
  const flows = [
    flow(`10.0.0.9:1 > ${VIP}`),
    flow(`10.0.0.1:1 > ${VIP} > ${A}`),
    flow(`10.0.0.2:1 > ${VIP} > ${A}`),
    flow(`10.0.0.2:2 > ${VIP} > ${A}`, 7),
  ];
  assertEquals(deletionsOf(entriesOf(flows)).map((each) => deletionArguments(each).join(" ")), [
    "-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.0.1 --reply-port-src 5353",
    "-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.96.0.10 --reply-port-src 53 -w 0",
  ]);
});

Deno.test("a listing is as narrow as the frontends allow", () => {
  const filters = (...ports: Parameters<typeof servicePort>[1][]) => {
    const after = ports.map((fields) => servicePort([], fields));
    return listFilters(new Map(suspectsOf({ before: [], after }, 4)));
  };
  assertEquals(filters({}), [{ address: "10.96.0.10", port: 53 }]);
  assertEquals(filters({ externalIPs: ["192.0.2.1"] }), [{ port: 53 }]);
  assertEquals(filters({ nodePort: 30053 }), [
    { address: "10.96.0.10", port: 53 },
    { port: 30053 },
  ]);
  assertEquals(filters({ port: 1 }, { port: 2 }, { port: 3 }, { port: 4 }), [{}]);
  assertEquals(filters(), []);
});

const addresses = fc.constantFrom("10.96.0.10", "10.96.0.11", "10.244.0.1");
const ports = fc.constantFrom(53, 5353);
const flows = fc.array(
  fc.record({
    src: fc.constantFrom("10.0.0.1", "10.0.0.2"),
    sport: fc.nat(3),
    dst: addresses,
    dport: ports,
    replySrc: addresses,
    replySport: ports,
    zone: fc.constantFrom(0, 0, 7),
  }),
);
const isUntranslated = (each: Flow) => each.dst === each.replySrc && each.dport === each.replySport;
const destinationOf = (each: Flow) =>
  `${each.dst} ${each.dport} ${each.replySrc} ${each.replySport}`;

for (const isOld of [false, true]) {
  const version = isOld ? "an old conntrack" : "conntrack";
  Deno.test(`deletions by ${version} remove all flows that are like the chosen ones, and no other`, async () => {
    await fc.assert(fc.asyncProperty(flows, fc.nat(15), async (all, chosen) => {
      const fake = new FakeConntrack(all);
      fake.isOld = isOld;
      const doomed = all.filter((each, index) =>
        (chosen >> (index % 4) & 1) === 1 && !(isUntranslated(each) && each.zone !== 0)
      );
      const kinds = new Set(doomed.map(destinationOf));
      const kept = all.filter((each) =>
        !kinds.has(destinationOf(each)) || isUntranslated(each) && each.zone !== 0
      );
      const deleted = await new ConntrackTool(fake).delete(deletionsOf(entriesOf(doomed)));
      assertEquals(fake.flows, kept);
      assertEquals(deleted, all.length - kept.length);
    }));
  });
}

Deno.test("thousands of flows to hundreds of destinations go with one process", async () => {
  const all = Array.from(
    { length: 5_000 },
    (_, index) => flow(`10.0.0.1:${index + 1} > 10.96.0.${index % 200}:53 > ${A}`),
  );
  const fake = new FakeConntrack(all);
  const deleted = await new ConntrackTool(fake).delete(deletionsOf(entriesOf(all)));
  assertEquals([deleted, fake.processes, fake.batches], [5_000, [
    "conntrack --load-file -",
  ], [200]]);
});

Deno.test("flows that are gone already are no error", async () => {
  const deletions = deletionsOf(entriesOf([flow(`10.0.0.1:1 > ${VIP} > ${A}`)]));
  assertEquals(await new ConntrackTool(new FakeConntrack()).delete(deletions), 0);
});

Deno.test("a refusal is an error of one line that says what the tool said", async () => {
  const fake = new FakeConntrack();
  fake.failure = {
    code: 1,
    stdout: "",
    stderr: "\nOperation failed: \u001b[31mno right\nsecond\n",
  };
  const tool = new ConntrackTool(fake);
  const deletions = deletionsOf(entriesOf([flow(`10.0.0.1:1 > ${VIP} > ${A}`)]));
  const messages = [
    (await assertRejects(() => tool.list(4, {}), ConntrackError)).message,
    (await assertRejects(() => tool.delete(deletions), ConntrackError)).message,
  ];
  assertEquals(messages, [
    "conntrack cannot list conntrack entries (exit 1): Operation failed: [31mno right",
    "conntrack cannot delete stale UDP conntrack entries (exit 1): Operation failed: [31mno right",
  ]);
});
