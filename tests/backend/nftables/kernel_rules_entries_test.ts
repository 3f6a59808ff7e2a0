import { assertEquals, assertMatch } from "@std/assert";
import { iptablesEntries } from "../../../lib/backend/iptables/kernel_rules.ts";
import { nftablesEntries, stickyClients } from "../../../lib/backend/nftables/kernel_rules.ts";
import type { KernelFacts } from "../../../lib/explain/kernel.ts";
import { fullScript } from "../../../lib/backend/iptables/script/script.ts";
import { parseSaved } from "../../../lib/backend/iptables/kernel/saved.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import type { DesiredState } from "../../../lib/model/kernel/desired.ts";
import { type Contents, parsingListing } from "../../../lib/backend/nftables/read.ts";
import { NftablesDataplane } from "../../../lib/backend/nftables/dataplane.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { Kernel } from "./kernel.ts";
import { SILENT_RUNNER } from "../../support/modes.ts";
import { explainWeb, LOCAL, REMOTE, slice, web, worldOf } from "../../explain/cluster.ts";
import { atOnce } from "../../../lib/model/ports/in_turns.ts";

const OBJECTS = [web(), slice([LOCAL, REMOTE])];

/** The listing of a kernel that was given the script, and then some more commands. */
async function listing(state: DesiredState, commands = ""): Promise<string> {
  await using kernel = await Kernel.create();
  await kernel.script(new NftablesDataplane(new Nft(SILENT_RUNNER)).full(state).text);
  if (commands !== "") await kernel.script(commands);
  return await kernel.nft.listTable();
}

function parse(text: string): Contents {
  return atOnce(parsingListing(text)) as Contents;
}

function entriesOf(state: DesiredState, text: string): string[] {
  const held = parse(text);
  const ports = state.services.get("shop/web") ?? [];
  return nftablesEntries(ports, { node: state.node, held }).map((each) =>
    `${each.state} ${each.in} ${each.key} | ${each.desired} | ${each.held}`
  );
}

Deno.test("a kernel in the desired state holds every entry of the Service", async () => {
  const { world: { desired: state } } = worldOf(OBJECTS);
  assertEquals(entriesOf(state, await listing(state)), [
    "same services4 10.96.0.10 . tcp . 80 | goto cluster4-tcp-2 | goto cluster4-tcp-2",
    "same cluster-ips4 10.96.0.10 |  | ",
    "same hairpins4 10.244.0.11 . 10.244.0.11 |  | ",
    "same endpoints-tcp4 10.96.0.10 . 80 . 0 | 10.244.0.11 . 8080 | 10.244.0.11 . 8080",
    "same endpoints-tcp4 10.96.0.10 . 80 . 1 | 10.244.1.11 . 8080 | 10.244.1.11 . 8080",
    "same chain pick-endpoints4-tcp-2  |  | ",
    "same chain cluster4-tcp-2  |  | ",
  ]);
});

Deno.test("elements that were deleted, added or changed by hand stand first", async () => {
  const { world: { desired: state } } = worldOf(OBJECTS);
  const text = await listing(
    state,
    `delete element inet signpost endpoints-tcp4 { 10.96.0.10 . 80 . 1 }
delete element inet signpost services4 { 10.96.0.10 . tcp . 80 }
add element inet signpost services4 { 10.96.0.10 . tcp . 80 : goto reject-traffic }
add element inet signpost endpoints-tcp4 { 10.96.0.10 . 80 . 7 : 10.244.9.9 . 8080 }
add element inet signpost services4 { 10.96.0.77 . tcp . 80 : goto reject-traffic }
`,
  );
  assertEquals(entriesOf(state, text).filter((each) => !each.startsWith("same")), [
    "missing endpoints-tcp4 10.96.0.10 . 80 . 1 | 10.244.1.11 . 8080 | ",
    "extra endpoints-tcp4 10.96.0.10 . 80 . 7 |  | 10.244.9.9 . 8080",
    "wrong services4 10.96.0.10 . tcp . 80 | goto cluster4-tcp-2 | goto reject-traffic",
  ]);
});

Deno.test("clients of session affinity are shown with their endpoint and time", async () => {
  const { world: { desired: state } } = worldOf([
    web({ sessionAffinity: "ClientIP" }),
    slice([LOCAL, REMOTE]),
  ]);
  const text = await listing(state);
  const set = /set (affinity4-\S+10\.244\.1\.11\.8080) \{/.exec(text)?.[1];
  const ports = state.services.get("shop/web") ?? [];
  assertEquals(stickyClients(ports, parse(text)), []);
  const sticky = await listing(
    state,
    `add element inet signpost ${set} { 203.0.113.9 timeout 3h expires 1h }\n`,
  );
  const [client, ...others] = stickyClients(ports, parse(sticky));
  assertEquals(others, []);
  const { expiresSeconds = 0, ...rest } = client ?? {};
  assertEquals(rest, {
    servicePort: "shop/web:http",
    client: "203.0.113.9",
    address: "10.244.1.11",
    port: 8080,
  });
  assertEquals(expiresSeconds > 3_000 && expiresSeconds <= 3_600, true, `${expiresSeconds}`);
});

Deno.test("in iptables mode, rules are compared one by one", () => {
  const { world: { desired: state } } = worldOf(OBJECTS, { mode: "iptables" });
  const script = fullScript(state, { families: FAMILIES, tcpBeLiberal: false });
  // What a restore program is given is, but for the verbs, what the save program prints.
  const [, ipv4 = ""] = /# iptables-restore\n([^]*?)# ip6tables-restore/.exec(script.text) ?? [];
  const builtIn = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
  const saved = ipv4.replace(/^-I (\S+) /gm, "-A $1 ")
    .replace(/^\*.*\n/gm, `$&${builtIn.map((chain) => `:${chain} ACCEPT [0:0]\n`).join("")}`);
  const entries = (text: string) =>
    iptablesEntries(state.services.get("shop/web") ?? [], {
      node: state.node,
      held: new Map([[4, atOnce(parseSaved(text))]]),
    });
  assertEquals(entries(saved).filter(({ state }) => state !== "same"), []);
  assertEquals(entries(saved).length > 4, true);
  const broken = saved.replace("--to-destination 10.244.1.11:8080", "--to-destination 10.9.9.9:1")
    .replace(/^-A KUBE-SERVICES .*shop\/web.*\n/m, "");
  const different = entries(broken).filter(({ state }) => state !== "same");
  assertEquals(different.map(({ state, in: place }) => [state, place.slice(0, 13)]), [
    ["missing", "nat KUBE-SERV"],
    ["wrong", "nat KUBE-SVC-"],
  ]);
  assertMatch(different[1]?.held ?? "", /10\.9\.9\.9:1/);
  const [jump] = entries(saved.replace(/^-A PREROUTING .*\n/m, ""));
  assertEquals([jump?.state, jump?.in], ["missing", "nat PREROUTING"]);
  assertMatch(jump?.key ?? "", /-j KUBE-SERVICES$/);
});

Deno.test("explain distinguishes a kernel without rules from one with kube-proxy's", () => {
  const findings = (kernel: Partial<KernelFacts>) =>
    explainWeb(OBJECTS, { kernel }).findings.map(({ severity, message }) =>
      `${severity} ${message}`
    );
  assertEquals(findings({ state: "empty" }), ["error the kernel has no rules of signpost"]);
  assertEquals(findings({ state: "unread", reason: "no permission" }), [
    "note the kernel's rules were not read: no permission",
  ]);
  const entry = { in: "services4", key: "k", desired: "a", held: "b" };
  const view = (state: "same" | "wrong", kubeProxy: readonly string[] = []) => ({
    state: state === "same" ? "same" as const : "different" as const,
    entries: [{ ...entry, state }],
    kubeProxy,
  });
  assertEquals(findings(view("same")), []);
  assertEquals(findings(view("wrong")), [
    "error the kernel differs from the desired rules: wrong in services4: k",
  ]);
  assertEquals(findings(view("same", ["table ip kube-proxy"])), [
    "warning the kernel also has rules of kube-proxy (table ip kube-proxy): two proxies handle " +
    "the same packets",
  ]);
});
