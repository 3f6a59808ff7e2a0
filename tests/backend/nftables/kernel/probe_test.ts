import { assertEquals, assertRejects } from "@std/assert";
import { desiredNode } from "../../../../lib/policy/node.ts";
import { ApplyError } from "../../../../lib/model/dataplane.ts";
import type { DesiredNode } from "../../../../lib/model/desired.ts";
import { ProgramMissingError } from "../../../../lib/model/ports.ts";
import { Nft } from "../../../../lib/backend/nftables/kernel/nft.ts";
import { probe } from "../../../../lib/backend/nftables/kernel/probe.ts";
import { wholeInput } from "../../../support/command.ts";
import { configuration, DEFAULTS } from "../../../support/configuration.ts";
import { Kernel } from "../kernel.ts";

function nodeOf(changes: Parameters<typeof configuration>[0] = {}): DesiredNode {
  const settings = configuration({ clusterCIDRs: ["10.244.0.0/16"], ...changes });
  return desiredNode({
    configuration: settings,
    mode: "nftables",
    node: undefined,
    serviceCIDRs: [],
  });
}

const NODE = nodeOf();

/** An `nft` that refuses scripts that match. */
function refusing(
  pattern: RegExp,
  stderr = "Error: Could not process rule: Operation not supported",
) {
  const calls: string[] = [];
  const nft = new Nft({
    run: (argv, stdin = "") => {
      calls.push(argv.join(" "));
      if (argv.includes("--version")) {
        return Promise.resolve({ code: 0, stdout: "nftables v1.0.6 (x)", stderr: "" });
      }
      const refused = pattern.test(wholeInput(stdin));
      return Promise.resolve({ code: refused ? 1 : 0, stdout: "", stderr: refused ? stderr : "" });
    },
  });
  return { nft, calls };
}

const FEATURES: readonly (readonly [name: string, pattern: RegExp, option: string])[] = [
  ["fib", /\bfib /, "CONFIG_NFT_FIB_INET"],
  ["numgen", /numgen random mod \d+ (?:vmap|map)/, "CONFIG_NFT_NUMGEN"],
  ["ct", /\bct state/, "CONFIG_NFT_CT"],
  ["reject", /^ *reject$/m, "CONFIG_NFT_REJECT_INET"],
  ["dnat", /\bdnat ip to/, "CONFIG_NFT_NAT"],
  ["masquerade", /\bmasquerade\b/, "CONFIG_NFT_MASQ"],
];

for (const [name, pattern, option] of FEATURES) {
  Deno.test(`a kernel without ${name} is told what it lacks, and nothing else`, async () => {
    const { nft, calls } = refusing(pattern);
    const error = await assertRejects(() => probe(nft, NODE), ApplyError);
    assertEquals(error.failure, "not-supported");
    const lacks = `this kernel lacks what the rules need: ${name} (kernel option ${option}); `;
    assertEquals(error.message.startsWith(lacks), true, error.message);
    assertEquals(error.message.includes("\n"), false);
    assertEquals(calls.filter((call) => call.includes("-f") && !call.includes("-c")), []);
  });
}

Deno.test("a kernel that lacks several things is told of all", async () => {
  const { nft } = refusing(/\bfib |\bmasquerade\b/);
  const { message } = await assertRejects(() => probe(nft, NODE), ApplyError);
  assertEquals(/fib \(.*\), masquerade \(/.test(message), true, message);
});

Deno.test("where each part is taken but not the whole, the versions that are needed are named", async () => {
  const { nft } = refusing(/table inet signpost \{/);
  const { message } = await assertRejects(() => probe(nft, NODE), ApplyError);
  assertEquals(/^nft 1\.0\.6 and this kernel do not take the rules/.test(message), true, message);
  assertEquals(message.includes("nft 1.0.1 and Linux 5.13"), true, message);
});

Deno.test("a missing permission or program is reported as such", async () => {
  const { nft } = refusing(/./, "Error: Could not process rule: Operation not permitted");
  const denied = await assertRejects(() => probe(nft, NODE), ApplyError);
  assertEquals(denied.failure, "not-permitted");
  const absent = new Nft({ run: () => Promise.reject(new ProgramMissingError("nft")) });
  const missing = await assertRejects(() => probe(absent, NODE), ApplyError);
  assertEquals(missing.failure, "program-missing");
});

Deno.test("this kernel passes, whatever the node's settings, and nothing is left in it", async () => {
  await using kernel = await Kernel.create();
  const detectLocal = { bridgeInterface: "cni0", interfaceNamePrefix: "cali", clusterCIDRs: [] };
  const settings: Parameters<typeof nodeOf>[0][] = [
    {},
    { detectLocalMode: "BridgeInterface", detectLocal },
    { detectLocalMode: "InterfaceNamePrefix", detectLocal },
    { nodePortAddresses: ["0.0.0.0/0", "2001:db8::/64"] },
    { nftables: { ...DEFAULTS.nftables, masqueradeAll: true, masqueradeBit: 31 } },
  ];
  for (const setting of settings) await probe(kernel.nft, nodeOf(setting));
  assertEquals(await kernel.nft.listTables(), []);
});
