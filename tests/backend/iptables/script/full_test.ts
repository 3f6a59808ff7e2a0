import { assertEquals } from "@std/assert";
import { fullScript } from "../../../../lib/backend/iptables/script/script.ts";
import { fitToSaved, fullInput } from "../../../../lib/backend/iptables/script/full.ts";
import { isOwnChain, parseSaved } from "../../../../lib/backend/iptables/kernel/saved.ts";
import { FAMILIES } from "../../../../lib/model/values/address.ts";
import type { Configuration } from "../../../../lib/config/configuration.ts";
import { DEFAULTS } from "../../../support/configuration.ts";
import { type ApiObject, Pipeline } from "../../../support/pipeline.ts";
import { EXAMPLE } from "../example.ts";
import { atOnce } from "../../../../lib/model/ports/in_turns.ts";

const OPTIONS = { families: FAMILIES, tcpBeLiberal: false };

function desired(
  objects: readonly ApiObject[],
  changes: Partial<Configuration> = {},
): Pipeline["desired"] {
  const pipeline = new Pipeline({
    mode: "iptables",
    configuration: { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"], ...changes },
  });
  pipeline.load(objects);
  return pipeline.desired;
}

function rulesOf(text: string, chain: string): string[] {
  return text.split("\n").filter((line) => line.startsWith(`-A ${chain} `));
}

Deno.test("every chain that is written is known as one of ours", () => {
  for (const family of FAMILIES) {
    const { tables } = atOnce(fullInput(desired(EXAMPLE), { ...OPTIONS, family }));
    const chains = tables.flatMap(({ chains }) => [...chains.keys()]);
    assertEquals(chains.filter((chain) => !isOwnChain(chain)), []);
  }
});

Deno.test("a script that is asked for while it is being worked out is the same", () => {
  const state = desired(EXAMPLE);
  const [script, other] = [fullScript(state, OPTIONS), fullScript(state, OPTIONS)];
  const making = script.making();
  making.next();
  assertEquals(script.text, other.text);
  let result = making.next();
  while (!result.done) result = making.next();
  assertEquals(result.value, atOnce(other.making()));
});

Deno.test("the same objects in another order give the same bytes", () => {
  const { text } = fullScript(desired(EXAMPLE), OPTIONS);
  assertEquals(fullScript(desired([...EXAMPLE].reverse()), OPTIONS).text, text);
});

Deno.test("an endpoint has a chain of its own only where session affinity needs one", () => {
  const { text } = fullScript(desired(EXAMPLE), OPTIONS);
  const chains = [...text.matchAll(/^:(KUBE-SEP-[A-Z2-7]{16}) /gm)].map(([, name]) => name);
  const sticky = [...text.matchAll(/^-A (KUBE-SEP-\S+) .*--set --name/gm)].map(([, name]) => name);
  assertEquals(chains, sticky);
  assertEquals(chains.length, 2);
});

Deno.test("given ranges of node ports leave localhost out", () => {
  const settings = {
    nodePortAddresses: ["10.0.0.0/8", "127.0.0.0/8"],
    iptables: { ...DEFAULTS.iptables, localhostNodePorts: false },
  };
  const script = fullScript(desired(EXAMPLE, settings), OPTIONS);
  const jumps = rulesOf(script.text, "KUBE-SERVICES").filter((line) =>
    /KUBE-NODEPORTS$/.test(line)
  );
  assertEquals(jumps.filter((line) => !line.includes("::1")).map((line) => line.slice(0, 36)), [
    "-A KUBE-SERVICES -d 10.0.0.0/8 -m co",
  ]);
  assertEquals(script.routeLocalnet, false);
});

Deno.test("a range around localhost does not open its node ports where they are off", () => {
  const settings = {
    nodePortAddresses: ["64.0.0.0/2"],
    iptables: { ...DEFAULTS.iptables, localhostNodePorts: false },
  };
  const { text } = fullScript(desired(EXAMPLE, settings), { ...OPTIONS, families: [4] });
  const [nat = ""] = text.split("*filter");
  const [guard, jump] = rulesOf(nat, "KUBE-SERVICES").slice(-2);
  assertEquals(guard?.replace(/-m comment .*" /, ""), "-A KUBE-SERVICES -d 127.0.0.0/8 -j RETURN");
  assertEquals(jump?.includes("-d 64.0.0.0/2"), true);
});

Deno.test("invalid packets pass where the configuration or an administrator says so", () => {
  const drops = (configured: boolean, tcpBeLiberal: boolean) => {
    const conntrack = { ...DEFAULTS.conntrack, tcpBeLiberal: configured };
    return fullScript(desired([], { conntrack }), { ...OPTIONS, tcpBeLiberal })
      .text.includes("INVALID");
  };
  assertEquals([drops(false, false), drops(true, false), drops(false, true)], [true, false, false]);
});

Deno.test("route_localnet is asked for where node ports answer on localhost", () => {
  assertEquals(fullScript(desired(EXAMPLE), OPTIONS).routeLocalnet, true);
  assertEquals(fullScript(desired(EXAMPLE), { ...OPTIONS, families: [6] }).routeLocalnet, false);
});

Deno.test("a full script takes over kube-proxy's chains: stale ones go, jumps stay single", () => {
  const saved = atOnce(parseSaved(`*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]
:KUBE-SEP-CCCCCCCCCCCCCCCC - [0:0]
:MINE - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-BBBBBBBBBBBBBBBB
-A MINE -j KUBE-SEP-CCCCCCCCCCCCCCCC
COMMIT
`));
  const input = atOnce(fullInput(desired([]), { ...OPTIONS, family: 4 }));
  const nat = fitToSaved(input, saved).tables.find(({ table }) => table === "nat");
  const jump = 'PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES';
  assertEquals(nat?.removed, ["KUBE-SEP-BBBBBBBBBBBBBBBB", "KUBE-SVC-AAAAAAAAAAAAAAAA"]);
  assertEquals(nat?.chains.get("KUBE-SEP-CCCCCCCCCCCCCCCC"), []);
  assertEquals(nat?.deleted, [jump]);
  assertEquals(nat?.inserted.includes(jump), false);
  assertEquals(nat?.inserted.length, 2);
});
