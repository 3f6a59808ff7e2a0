import { assertEquals } from "@std/assert";
import type { NodeFacts } from "../../lib/findings/facts.ts";
import { checkRouteLocalnet, checkSystem } from "../../lib/findings/system.ts";
import { factsOf } from "./facts.ts";

function said(facts: Partial<NodeFacts>): string[] {
  return checkSystem(factsOf([], { facts })).map(({ id, what }) => `${id}: ${what}`);
}

Deno.test("the rules and processes of another proxy are named", () => {
  const rival = { rules: ["table ip kube-proxy"], processes: ["kube-proxy (pid 4711)"] };
  assertEquals(said({ rival }), [
    "another-proxy: another proxy keeps writing its rules on this node: table ip kube-proxy " +
    "(kube-proxy (pid 4711))",
  ]);
});

Deno.test("a table of connection tracking is almost full from nine tenths on", () => {
  const withEntries = (entries: number) =>
    said({ system: { couldUseNftables: false, conntrack: { entries, max: 100 } } });
  assertEquals(withEntries(89), []);
  assertEquals(withEntries(90), [
    "conntrack-table-almost-full: connection tracking has 90 of 100 entries",
  ]);
});

Deno.test("a kernel setting that was refused is named with the line to type", () => {
  const name = "net.netfilter.nf_conntrack_max";
  const settingFailures = [{ name, value: 131_072, reason: "Read-only file system" }];
  const [found] = checkSystem(factsOf([], { facts: { settingFailures } }));
  assertEquals([found?.id, found?.where], ["kernel-setting-refused", name]);
  assertEquals(found?.remedy.includes(`sysctl -w ${name}=131072`), true);
});

/** What is said of a value of route_localnet. */
function saidOfRouteLocalnet(
  routeLocalnet: string,
  options: Parameters<typeof factsOf>[1],
): string[] {
  const system = { couldUseNftables: false, routeLocalnet };
  return checkRouteLocalnet(factsOf([], { ...options, facts: { system } })).map(({ id }) => id);
}

Deno.test("node ports on localhost in iptables mode need route_localnet", () => {
  assertEquals(saidOfRouteLocalnet("0", { mode: "iptables" }), ["route-localnet-off"]);
  assertEquals(saidOfRouteLocalnet("1", { mode: "iptables" }), []);
  const nodePortAddresses = ["192.0.2.0/24"];
  assertEquals(
    saidOfRouteLocalnet("0", { mode: "iptables", configuration: { nodePortAddresses } }),
    [],
  );
});

Deno.test("nftables mode does not need route_localnet", () => {
  assertEquals(saidOfRouteLocalnet("1", { mode: "nftables" }), ["route-localnet-on"]);
  assertEquals(saidOfRouteLocalnet("0", { mode: "nftables" }), []);
});
