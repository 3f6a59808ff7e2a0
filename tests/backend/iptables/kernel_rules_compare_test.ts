import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { comparingSaved } from "../../../lib/backend/iptables/kernel_rules.ts";
import { fullInput } from "../../../lib/backend/iptables/script/full.ts";
import { parseSaved, type Saved } from "../../../lib/backend/iptables/kernel/saved.ts";
import type { FamilyInput } from "../../../lib/backend/iptables/script/rule.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import type { DesiredState } from "../../../lib/model/kernel/desired.ts";
import type { Difference } from "../../../lib/model/kernel/differences.ts";
import { cluster } from "../../support/arbitrary.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { Kernel, newDataplane, VARIANTS } from "./kernel.ts";
import { WEB_SERVICE, webSlice } from "../../support/web_service.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

function compareSaved(...args: Parameters<typeof comparingSaved>): Difference[] {
  return atOnce(comparingSaved(...args));
}

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };

async function differences(kernel: Kernel, state: DesiredState): Promise<Difference[]> {
  const all = await Promise.all(FAMILIES.map(async (family) =>
    compareSaved(
      atOnce(fullInput(state, { family, tcpBeLiberal: false })),
      atOnce(parseSaved(await kernel.save(family))),
    )
  ));
  return all.flat();
}

const OBJECTS = [WEB_SERVICE, webSlice(["10.244.1.1", "10.244.1.2"])];

const SERVICE_RULE = '-d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" ' +
  "-m tcp --dport 80";
const JUMP = '-m comment --comment "kubernetes service portals"';

for (const variant of VARIANTS) {
  Deno.test(`after partial syncs between random states iptables${variant} compares equal`, async () => {
    await using kernel = await Kernel.create(variant);
    const dataplane = newDataplane(kernel);
    await fc.assert(
      fc.asyncProperty(cluster, cluster, async (a, b) => {
        const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
        await pipeline.apply(dataplane, a);
        assertEquals(await differences(kernel, pipeline.desired), []);
        await dataplane.apply(pipeline.step(dataplane, b));
        assertEquals(await differences(kernel, pipeline.desired), []);
        const fresh = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
        fresh.load(b.toReversed());
        assertEquals(await differences(kernel, fresh.desired), []);
      }),
      { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 15) },
    );
  });

  Deno.test(`what was done by hand to iptables${variant} is found, chain by chain`, async () => {
    await using kernel = await Kernel.create(variant);
    const dataplane = newDataplane(kernel);
    const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
    await pipeline.apply(dataplane, OBJECTS);
    const saved = atOnce(parseSaved(await kernel.save(4))).get("nat");
    const chain = [...saved?.chains.keys() ?? []].find((name) => name.startsWith("KUBE-SVC-")) ??
      "";
    const nat = [`iptables${variant}`, "-t", "nat"];

    await kernel.run(...nat, "-D", "PREROUTING", "-j", "KUBE-SERVICES", ...words(JUMP));
    await kernel.run(...nat, "-D", "KUBE-SERVICES", ...words(SERVICE_RULE), "-j", chain);
    await kernel.run(...nat, "-A", chain, "-j", "RETURN");
    await kernel.run(...nat, "-N", "KUBE-SVC-BYHAND");

    const found = await differences(kernel, pipeline.desired);
    assertEquals(found.map((each) => [each.type, each.in, each.key, each.desired + each.held]), [
      ["missing", "iptables nat KUBE-SERVICES", `${SERVICE_RULE} -j ${chain}`, ""],
      ["extra", `iptables nat ${chain}`, "-j RETURN", ""],
      ["missing", "iptables nat PREROUTING", `${JUMP} -j KUBE-SERVICES`, ""],
      ["extra", "iptables nat KUBE-SVC-BYHAND", "", ""],
    ]);
  });

  Deno.test(`an iptables${variant} without rules of ours lacks every chain`, async () => {
    await using kernel = await Kernel.create(variant);
    const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
    pipeline.load(OBJECTS);
    const all = await differences(kernel, pipeline.desired);
    assertEquals(all.every(({ type }) => type === "missing"), true);
    assertEquals(all.length > 0, true);
  });
}

/** Matches and targets' options that signpost writes nowhere. */
const FOREIGN = [
  "-s 203.0.113.7/32",
  "! -d 203.0.113.0/24",
  "-i eth9",
  "-p icmp",
  "-m tcp --sport 22",
  "-m limit --limit 1/sec",
  "-m owner --uid-owner 0",
  "-m conntrack --ctstate ESTABLISHED",
  "-m statistic --mode nth --every 3 --packet 0",
  "-m mark --mark 0x99",
  "-m time --timestart 01:00",
  '-m comment --comment "by hand"',
  "-f",
  "-g",
] as const;

Deno.test("a foreign word in any rule of any cluster is a difference in iptables mode", () => {
  fc.assert(
    fc.property(
      cluster,
      fc.constantFrom(...FAMILIES),
      fc.constantFrom(...FOREIGN),
      fc.tuple(fc.nat(), fc.nat(), fc.nat()),
      (objects, family, foreign, [anyTable, anyRule, anyPlace]) => {
        const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
        pipeline.load(objects);
        const desired = atOnce(fullInput(pipeline.desired, { family, tcpBeLiberal: false }));
        const rules = rulesOf(desired);
        const at = anyTable % desired.tables.length;
        const tampered = rules.map((all, table) => {
          if (table !== at || all.length === 0) return all;
          const rule = anyRule % all.length;
          const parts = (all[rule] ?? "").split(/ (?=-)/);
          parts.splice(1 + anyPlace % parts.length, 0, foreign);
          return all.with(rule, parts.join(" "));
        });
        assertEquals(compareSaved(desired, saved(desired, rules)), []);
        assertEquals(compareSaved(desired, saved(desired, tampered)).length > 0, true);
      },
    ),
    { numRuns: 500 },
  );
});

const BUILT_IN: Readonly<Record<string, readonly string[]>> = {
  filter: ["INPUT", "FORWARD", "OUTPUT"],
  nat: ["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
};

/** The rules of each table as `iptables-save` prints them behind `-A`. */
function rulesOf({ tables }: FamilyInput): string[][] {
  return tables.map(({ chains, inserted }) => [
    ...[...chains].flatMap(([chain, all]) => all.map((rule) => `${chain} ${rule}`)),
    ...inserted,
  ]);
}

/** Returns the chains of a state, with these rules in each table, as the kernel would list them. */
function saved({ tables }: FamilyInput, rules: readonly (readonly string[])[]): Saved {
  const lines = tables.flatMap(({ table, chains }, i) => [
    `*${table}`,
    ...(BUILT_IN[table] ?? []).map((name) => `:${name} ACCEPT [0:0]`),
    ...[...chains.keys()].map((name) => `:${name} - [0:0]`),
    ...(rules[i] ?? []).map((rule) => `-A ${rule}`),
    "COMMIT",
  ]);
  return atOnce(parseSaved(lines.join("\n")));
}

Deno.test("a jump of ours with one match more is extra, another program's is its own", () => {
  const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
  const desired = atOnce(fullInput(pipeline.desired, { family: 4, tcpBeLiberal: false }));
  const withJumps = (...jumps: string[]) =>
    saved(desired, rulesOf(desired).map((rules, i) => i === 0 ? [...rules, ...jumps] : rules));
  const others = withJumps("PREROUTING -j DOCKER", "INPUT -j CNI");
  assertEquals(compareSaved(desired, others), []);
  const jump = `-s 203.0.113.7/32 ${JUMP} -j KUBE-SERVICES`;
  assertEquals(compareSaved(desired, withJumps(`INPUT ${jump}`)), [
    { type: "extra", in: "iptables nat INPUT", key: jump, desired: "", held: "" },
  ]);
});

function words(rule: string): string[] {
  return [...rule.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}
