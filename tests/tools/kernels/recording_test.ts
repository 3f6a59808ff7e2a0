import { assertEquals } from "@std/assert";
import { OWN_SET } from "../../../lib/backend/ipvs/kernel.ts";
import { isOwnChain } from "../../../lib/backend/iptables/kernel/saved.ts";
import { FAMILIES, type Family } from "../../../lib/model/values/address.ts";
import { vipsOf } from "../../../tools/kernels/ipvs/objects.ts";
import recording from "../../../tools/kernels/ipvs/recording.json" with { type: "json" };

/** Everything that kube-proxy served in a family. */
function vips(family: Family): string[] {
  const { clusterIPs, ...all } = vipsOf(family);
  const others = [all.deleted, all.empty, all.loadBalancer, all.deletedLoadBalancer];
  return [
    ...[...clusterIPs, ...others],
    ...[all.localLoadBalancer, all.limitedLoadBalancer, all.externalIP],
  ];
}

Deno.test("the recording of kube-proxy's ipvs mode has every virtual IP of the Services", () => {
  const bound = recording.addresses.map((line) => /^addr add (\S+)\/\d+ /.exec(line)?.[1]);
  assertEquals(bound.sort(), FAMILIES.flatMap(vips).sort());
});

Deno.test("signpost knows every set and every chain that kube-proxy's ipvs mode makes", () => {
  const sets = recording.sets.flatMap((line) => /^create (\S+)/.exec(line)?.[1] ?? []);
  assertEquals(sets.filter((name) => !OWN_SET.test(name)), []);
  const chains = Object.values(recording.rules).flat()
    .flatMap((line) => /^:(\S+)/.exec(line)?.[1] ?? []);
  assertEquals(chains.filter((name) => !isOwnChain(name)), []);
  assertEquals([sets.length, chains.length], [2 * 17, 2 * 11]);
});
