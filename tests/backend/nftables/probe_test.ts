import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { desiredNode } from "../../../lib/policy/node.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import type { DesiredNode } from "../../../lib/model/kernel/desired.ts";
import { ProgramMissingError } from "../../../lib/model/ports/ports.ts";
import { Nft } from "../../../lib/backend/nftables/nft.ts";
import { probe } from "../../../lib/backend/nftables/probe.ts";
import { wholeInput } from "../../support/whole_input.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";
import { Kernel } from "./kernel.ts";
import { traitsOf } from "../../support/modes.ts";

function nodeOf(changes: Parameters<typeof configuration>[0] = {}): DesiredNode {
  const settings = configuration({ clusterCIDRs: ["10.244.0.0/16"], ...changes });
  return desiredNode({
    configuration: settings,
    traits: traitsOf("nftables"),
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
    run: async (argv, stdin = "") => {
      calls.push(argv.join(" "));
      if (argv.includes("--version")) return { code: 0, stdout: "nftables v1.0.6 (x)", stderr: "" };
      const refused = pattern.test(await wholeInput(stdin));
      return { code: refused ? 1 : 0, stdout: "", stderr: refused ? stderr : "" };
    },
  });
  return { nft, calls };
}

const probeNode = (nft: Nft, node: DesiredNode = NODE) => probe(nft, { node, kernel: "6.12.117" });

const EXPRESSIONS: readonly (readonly [name: string, pattern: RegExp, module: string])[] = [
  ["fib", /\bfib /, "nft_fib_inet, CONFIG_NFT_FIB_INET"],
  ["numgen", /numgen random mod \d+ (?:0|map)/, "nft_numgen, CONFIG_NFT_NUMGEN"],
  ["ct", /\bct state/, "nft_ct, CONFIG_NFT_CT"],
  ["reject", /^ *reject$/m, "nft_reject_inet, CONFIG_NFT_REJECT_INET"],
  ["dnat", /\bdnat ip to/, "nft_nat, CONFIG_NFT_NAT"],
  ["masquerade", /\bmasquerade\b/, "nft_masq, CONFIG_NFT_MASQ"],
];

for (const [name, pattern, module] of EXPRESSIONS) {
  Deno.test(`a refused ${name} is named with the words of the refusal`, async () => {
    const { nft, calls } = refusing(
      pattern,
      "/dev/stdin:7:5-9: Error: Could not process rule: No such file or directory\n    the rule\n    ^^^^\n",
    );
    const error = await assertRejects(() => probeNode(nft), ApplyError);
    assertEquals(error.failure, "not-supported");
    const [file] = module.split(",");
    assertEquals(
      error.message,
      'nft 1.0.6 on kernel 6.12.117 refuses: "Error: Could not process rule: No such file or ' +
        `directory" at "the rule"; the rules need expressions that are not available: ${name} ` +
        `(kernel module ${module}); a kernel module is missing: run modprobe -a ${file} on the node itself ` +
        "(systemd/signpost-modules.conf does so at boot), or use --proxy-mode iptables",
    );
    assertEquals(calls.filter((call) => call.includes("-f") && !call.includes("-c")), []);
  });
}

Deno.test("where several expressions are refused, all are named", async () => {
  const { nft } = refusing(/\bfib |\bmasquerade\b/);
  const { message } = await assertRejects(() => probeNode(nft), ApplyError);
  assertEquals(/fib \(.*\), masquerade \(/.test(message), true, message);
});

Deno.test("a table that is refused as a whole quotes the refusal", async () => {
  const { nft } = refusing(
    /chain services \{/,
    "/dev/stdin:9:1-2: Error: Could not process rule: Operation not supported\n    ip daddr x drop\n",
  );
  const { message } = await assertRejects(() => probeNode(nft), ApplyError);
  assertEquals(
    message,
    'nft 1.0.6 on kernel 6.12.117 refuses: "Error: Could not process rule: Operation not supported" ' +
      'at "ip daddr x drop"; use an nft or a kernel that takes it, or --proxy-mode iptables',
  );
});

Deno.test("a kernel without nf_tables names all modules", async () => {
  const { nft } = refusing(
    /./,
    "mnl.c:60: Unable to initialize Netlink socket: Protocol not supported\n",
  );
  const { message } = await assertRejects(() => probeNode(nft), ApplyError);
  assertEquals(
    message,
    'nft 1.0.6 on kernel 6.12.117 refuses: "mnl.c:60: Unable to initialize Netlink socket: Protocol ' +
      'not supported"; a kernel module is missing: run modprobe -a nf_tables nf_conntrack nft_ct ' +
      "nft_chain_nat nft_nat nft_masq nft_numgen nft_fib_inet nft_reject_inet on the node itself " +
      "(systemd/signpost-modules.conf does so at boot), or use --proxy-mode iptables",
  );
});

for (
  const [version, pattern, words] of [
    ["1.0.0", /typeof .* : verdict/, "primary expression type 'symbol' lacks typeof serialization"],
    [
      "1.0.2",
      /typeof .* numgen/,
      "can not use variable sized data types (integer) in concat expressions",
    ],
  ] as const
) {
  Deno.test(`an nft that refuses as ${version} does is too old`, async () => {
    const { nft } = refusing(pattern, `/dev/stdin:5:50-56: Error: ${words}`);
    const { message } = await assertRejects(() => probeNode(nft), ApplyError);
    assertStringIncludes(message, words);
    assertMatch(message, /this nft .* install nft 1\.0\.6 or newer, or use --proxy-mode iptables$/);
  });
}

for (
  const [feature, pattern] of [
    ["source-ranges", /source-ranges/],
    ["session-affinity", /affinity/],
    ["connection-counters", /; counter$/m],
  ] as const
) {
  Deno.test(`where only ${feature} are refused, the rest of the table is not lost`, async () => {
    const { nft } = refusing(
      pattern,
      "/dev/stdin:9:1-2: Error: Could not process rule: Operation not supported\n    the rule drop\n",
    );
    assertEquals([...await probeNode(nft)], [[
      feature,
      'nft 1.0.6 on kernel 6.12.117 refuses: "Error: Could not process rule: Operation not ' +
      'supported" at "the rule drop"; use an nft or a kernel that takes it, or --proxy-mode iptables',
    ]]);
  });
}

Deno.test("a kernel that refuses flowtables takes the table without them", async () => {
  const { nft } = refusing(
    /flow add/,
    "/dev/stdin:9:1-2: Error: Could not process rule: No such file or directory\n    the rule\n",
  );
  const acceleration = { interfaces: ["eth0"], packets: 20, services: "all" } as const;
  const node = nodeOf({ signpost: { ...DEFAULTS.signpost, acceleration } });
  const refused = await probeNode(nft, node);
  assertEquals([...refused.keys()], ["acceleration"]);
  assertMatch(refused.get("acceleration") ?? "", /modprobe -a nft_flow_offload nf_flow_table_inet/);
  assertEquals([...await probeNode(nft)], []);
});

Deno.test("a missing permission or program is reported as such", async () => {
  const { nft } = refusing(/./, "Error: Could not process rule: Operation not permitted");
  const denied = await assertRejects(() => probeNode(nft), ApplyError);
  assertEquals(denied.failure, "not-permitted");
  const absent = new Nft({ run: () => Promise.reject(new ProgramMissingError("nft")) });
  const missing = await assertRejects(() => probeNode(absent), ApplyError);
  assertEquals(missing.failure, "program-missing");
});

Deno.test("this kernel passes, whatever the node's settings", async () => {
  await using kernel = await Kernel.create();
  const detectLocal = { bridgeInterface: "cni0", interfaceNamePrefix: "cali" };
  const settings: Parameters<typeof nodeOf>[0][] = [
    {},
    { detectLocalMode: "BridgeInterface", detectLocal },
    { detectLocalMode: "InterfaceNamePrefix", detectLocal },
    { nodePortAddresses: ["0.0.0.0/0", "2001:db8::/64"] },
    { nftables: { ...DEFAULTS.nftables, masqueradeAll: true, masqueradeBit: 31 } },
  ];
  for (const setting of settings) {
    assertEquals([...await probeNode(kernel.nft, nodeOf(setting))], []);
  }
  assertEquals(await kernel.nft.listTables(), []);
});

Deno.test("no check names our table, which another signpost may delete", async () => {
  const scripts: string[] = [];
  const nft = new Nft({
    run: async (argv, stdin = "") => {
      if (argv.includes("--check") || argv.includes("-c")) scripts.push(await wholeInput(stdin));
      return { code: argv.includes("-f") ? 1 : 0, stdout: "", stderr: "Error: refused" };
    },
  });
  await assertRejects(() => probeNode(nft), ApplyError);
  assertEquals(scripts.filter((script) => /table inet signpost(?!-probe)/.test(script)), []);
  assertEquals(scripts.length > 1, true);
});
