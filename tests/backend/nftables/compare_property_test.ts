import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { compareContents } from "../../../lib/backend/nftables/compare.ts";
import { desiredContents } from "../../../lib/backend/nftables/read.ts";
import { cluster } from "../../support/arbitrary.ts";
import { execute } from "../../support/command.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { Kernel } from "./kernel.ts";

/** Matches and statements that signpost writes nowhere. */
const FOREIGN = [
  "tcp sport 22",
  "udp sport 53",
  "tcp flags syn",
  "ip saddr 203.0.113.7",
  "ip saddr != 203.0.113.0/24",
  "ip saddr { 203.0.113.7, 203.0.113.9 }",
  "ip daddr 203.0.113.7",
  "ip6 saddr fd00::99",
  "ip ttl 1",
  "ip dscp cs1",
  "ip length > 100",
  "meta l4proto icmp",
  "meta skuid 0",
  "meta length 0-100",
  "meta pkttype broadcast",
  "meta cpu 0",
  "meta mark 0x99",
  'iifname "eth9"',
  'oifname != "eth9"',
  "ct state established",
  "ct mark 0x1",
  "ct direction reply",
  "fib saddr type broadcast",
  "numgen random mod 7 3",
  "limit rate 1/second",
  "limit rate over 5/second",
  "quota 1 mbytes",
  "counter",
  'log prefix "x"',
  "meta mark set 0x1",
  "ct mark set 0x7",
  "meta nftrace set 1",
  "meta priority set 1:1",
] as const;

/** One rule of the table, changed as another program would. */
interface Tampering {
  /** Which rule of all rules, from 0 to 1. */
  readonly rule: number;
  /** The place among its words, from 0 (in front of all) to 1. */
  readonly place: number;
  readonly foreign: string;
}

const tampering: fc.Arbitrary<Tampering> = fc.record({
  rule: fc.double({ min: 0, max: 0.999, noNaN: true }),
  place: fc.constantFrom(0, 0, 1),
  foreign: fc.constantFrom(...FOREIGN),
});

/** A statement in front of the one that ends the rule, or before everything. */
function insert(rule: string, { place, foreign }: Tampering): string {
  if (place === 0) return `${foreign} ${rule}`;
  const verdict = /(?:^| )(?:(?:goto|jump) \S+|accept|drop|reject|masquerade.*|dnat .*)$/.exec(
    rule,
  );
  return verdict
    ? `${rule.slice(0, verdict.index)} ${foreign} ${verdict[0].trim()}`.trim()
    : `${foreign} ${rule}`;
}

Deno.test("a foreign match or statement in any rule of any cluster is a difference", async () => {
  await using kernel = await Kernel.create();
  let tampered = 0;
  const run = async (script: string) => {
    const argv = [...kernel.prefix, "nft", "-f", "-"] as const;
    return (await execute([...argv], { stdin: script })).code === 0;
  };
  await fc.assert(
    fc.asyncProperty(
      cluster,
      fc.array(tampering, { minLength: 8, maxLength: 8 }),
      async (objects, tamperings) => {
        const pipeline = new Pipeline({ configuration: { clusterCIDRs: ["10.244.0.0/16"] } });
        await pipeline.apply(new NftablesDataplane(kernel.nft), objects);
        const desired = desiredContents(pipeline.desired);
        const look = async () => {
          const held = await kernel.contents();
          return held && compareContents(desired, held);
        };
        assertEquals(await look(), []);
        const rules = [...desired.chains].flatMap(([chain, all]) =>
          all.flatMap((rule, at) => rule.startsWith("type ") ? [] : [{ chain, rule, at }])
        );
        const rewrite = (chain: string, change: (rule: string, at: number) => string) =>
          (desired.chains.get(chain) ?? []).flatMap((rule, at) =>
            rule.startsWith("type ")
              ? []
              : [`add rule inet signpost ${chain} ${change(rule, at)}\n`]
          ).join("");
        for (const each of tamperings) {
          const picked = rules[Math.floor(each.rule * rules.length)];
          if (!picked) continue;
          const { chain } = picked;
          const flush = `flush chain inet signpost ${chain}\n`;
          const foreign = rewrite(
            chain,
            (rule, at) => at === picked.at ? insert(rule, each) : rule,
          );
          // What contradicts itself, such as a TCP port in a rule for UDP, nft refuses.
          if (!await run(flush + foreign)) continue;
          tampered++;
          const differences = await look();
          assert(
            differences?.some((difference) => difference.in === `chain ${chain}`),
            `${insert(picked.rule, each)} in ${chain} passes unseen`,
          );
          assert(await run(flush + rewrite(chain, (rule) => rule)));
          assertEquals(await look(), []);
        }
      },
    ),
    { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 8) },
  );
  assert(tampered > 0, "nft has taken some of them");
});
