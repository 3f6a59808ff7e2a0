/** Objects that are small to send and large to work out: other Services must not notice. */
import { assertEquals } from "@std/assert";
import { ADDRESSES, type Manifest, service, slice } from "../cluster.ts";
import { Stage } from "../stage.ts";

const a = ADDRESSES[4];

function list(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `192.9.${i >> 8}.${i & 255}`);
}

function ports(count: number): Manifest[] {
  return Array.from({ length: count }, (_, i) => ({ name: `p${i}`, protocol: "TCP", port: i + 1 }));
}

/** Two of them want the same 10,000 frontends; the others are over a limit. */
const HOSTILE: readonly Manifest[] = [
  { externalIPs: list(99), ports: ports(100) },
  { externalIPs: list(99), ports: ports(100) },
  { externalIPs: list(10_000), ports: ports(400) },
  {
    type: "LoadBalancer",
    ports: ports(2_000),
    externalIPs: list(99),
    loadBalancerSourceRanges: list(20_000).map((address) => `${address}/32`),
  },
  { sessionAffinity: "ClientIP", ports: ports(6_000) },
].map((spec, i) =>
  service(a, { name: `evil${i}`, spec: { clusterIP: `10.96.9.${i + 1}`, ...spec } })
);

Deno.test("hostile Services do not delay others' changes", async () => {
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using signpost = await stage.startSynced();
  stage.apply(...HOSTILE, slice(a, ["local1"], { service: "evil4", ports: ports(6_000) }));
  stage.apply(slice(a, ["local2"]));
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["local2"] }]);
  await signpost.waitForLog(/shop\/evil1 does not get all .* … and 9,895 more/);
  const told = () => signpost.log.split("\n").filter((line) => /shop\/evil/.test(line));
  await signpost.until("a warning for each but the first", () => told().length >= 4);
  const warnings = told();
  assertEquals(warnings.length, 4, warnings.map((line) => line.slice(0, 200)).join("\n"));
  assertEquals(await stage.metric('signpost_objects_refused{kind="Service"}'), 3);
  const memory = await stage.metric("process_resident_memory_bytes");
  assertEquals(memory < 300e6, true, `${memory} bytes`);
});
