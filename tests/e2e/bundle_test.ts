import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { run } from "../support/command.ts";
import { runSignpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import type { HistoryEntry } from "../../lib/model/status.ts";
import { ADDRESSES, service, slice, TARGET_PORT } from "./cluster.ts";
import { Stage } from "./stage.ts";
import { wordsOf } from "../support/table.ts";

const a = ADDRESSES[4];

/** No part of a bundle has this. */
const SECRET = "h4gK7mPq2xVz9";

const FILES = wordsOf(`
  check.json configuration.yaml conntrack.txt history.json iptables.txt kube-proxy.json log.txt
  network.txt nft.txt status.json sysctl.txt verify.json versions.txt
`);

/** Rules whose comments people wrote, in signpost's table and in another one. */
const COMMENTED = `table inet other {
  chain forward {
    type filter hook forward priority 0; policy accept;
    tcp dport 1 counter comment "password ${SECRET}"
  }
}
table inet signpost {
  chain filter-forward {
    log prefix "${SECRET}" counter comment "${SECRET}"
  }
}
`;

const ENVIRONMENT = { API_TOKEN: SECRET, HTTPS_PROXY: `http://user:${SECRET}@127.0.0.1:1` };

/** Makes a node with secrets in each place that a bundle reads from. */
async function stageWithSecrets(): Promise<Stage> {
  const web = service(a);
  const annotations = { "example.com/password": SECRET };
  const metadata = { ...web["metadata"] as object, annotations };
  const stage = await Stage.create({ objects: [{ ...web, metadata }, slice(a, ["local1"])] });
  const kubeconfig = JSON.parse(stage.api.kubeconfig({ token: SECRET })) as { users: unknown[] };
  const keys = { "client-key-data": btoa(SECRET), password: SECRET, username: "admin" };
  kubeconfig.users.push({ name: "other", user: keys });
  await Deno.writeTextFile(`${stage.folder}/kubeconfig`, JSON.stringify(kubeconfig));
  return stage;
}

/** Runs `signpost bundle` and unpacks the archive: by file, its text. */
async function bundle(
  { network, args, folder }: Stage,
  more: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const archive = `/run/signpost/e2e-${crypto.randomUUID()}.tar.gz`;
  const result = await runSignpost(
    network,
    ["bundle", ...args, "--output", archive, ...more],
    { env: ENVIRONMENT },
  );
  assertEquals(result.code, 0, result.stderr);
  for (const file of FILES) assertStringIncludes(result.stdout, `  ${file} `);
  assertEquals((await Deno.stat(archive)).mode! & 0o777, 0o600);
  const unpacked = await Deno.makeTempDir({ dir: folder });
  await run(["tar", "--strip-components=1", "-xzf", archive, "-C", unpacked]);
  await Deno.remove(archive);
  const texts = new Map<string, string>();
  for await (const { name } of Deno.readDir(unpacked)) {
    texts.set(name, await Deno.readTextFile(`${unpacked}/${name}`));
  }
  assertEquals([...texts.keys()].sort(), FILES);
  return texts;
}

function assertNoSecret(texts: ReadonlyMap<string, string>): void {
  for (const [file, text] of texts) {
    assertEquals(text.includes(SECRET) || text.includes(btoa(SECRET)), false, `${file}: ${text}`);
  }
}

Deno.test("a bundle of a running daemon has no secret", async () => {
  await using stage = await stageWithSecrets();
  await using signpost = await stage.startSynced(stage.socket);
  await stage.network.run(NODE, ["nft", "-f", "-"], { stdin: COMMENTED });
  stage.apply(slice(a, ["remote1"]));
  await stage.flowsBecome(signpost, [{ from: "pod", to: a.clusterIP, reaches: ["remote1"] }]);
  const what =
    `endpoint ${a.remote1}:${TARGET_PORT} added, endpoint ${a.local1}:${TARGET_PORT} gone`;
  const explained = await stage.ask("explain", "shop/web");
  assertMatch(
    explained.stdout,
    new RegExp(`Last changes\\n +\\S+Z ${what}, in the kernel after [\\d.]+ m?s\\n`),
  );
  const texts = await bundle(stage, stage.socket);
  assertNoSecret(texts);
  const json = (file: string) => JSON.parse(texts.get(file) ?? "") as Record<string, unknown>;
  assertEquals([json("status.json")["services"], json("check.json")["daemon"]], [1, true]);
  assertEquals(json("verify.json")["services"], 1);
  const nft = texts.get("nft.txt") ?? "";
  assertStringIncludes(nft, "chain nat-prerouting {");
  assertStringIncludes(nft, "chain forward: 1 rules, type filter hook forward priority 0");
  assertEquals(nft.includes(a.clusterIP), false);
  assertStringIncludes(texts.get("configuration.yaml") ?? "", "kind: KubeProxyConfiguration");
  assertStringIncludes(texts.get("versions.txt") ?? "", "kernel: ");
  assertStringIncludes(texts.get("conntrack.txt") ?? "", "entries: ");
  const [change] = JSON.parse(texts.get("history.json") ?? "") as HistoryEntry[];
  assertEquals([change?.service, change?.what], ["shop/web", what]);
  assertMatch(texts.get("log.txt") ?? "", /INFO ready services=1/);
  assertStringIncludes(texts.get("network.txt") ?? "", a.node);
  assertMatch(texts.get("sysctl.txt") ?? "", /net\.netfilter\.nf_conntrack_max = /);
});

Deno.test("a bundle needs no daemon", async () => {
  await using stage = await stageWithSecrets();
  await stage.network.run(NODE, ["nft", "-f", "-"], { stdin: COMMENTED });
  await stage.api.stop();
  const texts = await bundle(stage, ["--proxy-from-environment"]);
  assertNoSecret(texts);
  assertStringIncludes(texts.get("status.json") ?? "", "could not be read: --socket is empty");
  assertStringIncludes(texts.get("log.txt") ?? "", "could not be read: --socket is empty");
  assertStringIncludes(texts.get("verify.json") ?? "", "could not be read: ");
  assertStringIncludes(texts.get("check.json") ?? "", "api-server-unreachable");
  assertMatch(texts.get("nft.txt") ?? "", /chain filter-forward \{\n\s*log prefix .* counter /);
  assertStringIncludes(texts.get("iptables.txt") ?? "", "# iptables-nft-save");
});
