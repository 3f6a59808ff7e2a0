import { assertEquals, assertMatch } from "@std/assert";
import { type Signpost, signpostCommand } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import {
  ADDRESSES,
  clusterObjects,
  type EndpointHost,
  NODE_PORT,
  service,
  slice,
} from "./cluster.ts";
import type { Flow } from "./flow.ts";
import { HEALTH_PORT, Stage, syncs } from "./stage.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { service as buildService } from "../support/cluster.ts";

const test = sideBySide("start and configuration");

const WEB = [
  service(ADDRESSES[4], { spec: { type: "NodePort" } }),
  slice(ADDRESSES[4], ["local1"]),
];

/** Waits for the end; gives the exit code and the lines of standard error as without `-v`. */
async function ending(signpost: Signpost): Promise<{ code: number; lines: readonly string[] }> {
  const status = await signpost.until("the end", () => signpost.ended);
  await signpost.stop();
  const lines = signpost.log.split("\n").filter((line) => !/Warning|^$| DEBUG /.test(line));
  return { code: status.code, lines };
}

/** All that the node's kernel holds. */
async function kernelOf(stage: Stage): Promise<string> {
  const rulesets = ["nft list ruleset", "iptables-legacy-save", "ip6tables-legacy-save"];
  return await stage.network.run(NODE, ["sh", "-ec", rulesets.join("; ")]);
}

/** Errors on a node without any program, by the mode that is asked for. */
const WITHOUT_PROGRAMS: Readonly<Record<string, RegExp>> = {
  "": / ERROR neither nftables nor iptables can be used: .*install it.*install iptables/,
  "nftables": / ERROR .*nft.* install/,
  "iptables": / ERROR .*iptables.* install/,
};

for (const [mode, error] of Object.entries(WITHOUT_PROGRAMS)) {
  test(`without programs, --proxy-mode '${mode}' is one line and exit code 1`, async () => {
    await using stage = await Stage.create({ config: { mode } });
    await Deno.mkdir(`${stage.folder}/bin`);
    const command = ["env", `PATH=${stage.folder}/bin`, ...signpostCommand()];
    await using signpost = stage.start([], { command });
    const { code, lines } = await ending(signpost);
    assertEquals([code, lines.length], [1, 1], signpost.log);
    assertMatch(lines[0] ?? "", error);
  });

  test(`without CAP_NET_ADMIN, --proxy-mode '${mode}' is one line and exit code 1`, async () => {
    await using stage = await Stage.create({ config: { mode } });
    const command = [
      ...["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"],
      ...signpostCommand(),
    ];
    await using signpost = stage.start([], { command });
    const { code, lines } = await ending(signpost);
    assertEquals([code, lines.length], [1, 1], signpost.log);
    assertMatch(lines[0] ?? "", / ERROR .*CAP_NET_ADMIN/);
  });
}

test("an API server that is a cluster IP is refused at once", async () => {
  await using stage = await Stage.create();
  await stage.nameServer("10.96.0.1", 443);
  await using signpost = stage.start([], { env: { KUBERNETES_PORT: "tcp://10.96.0.1:443" } });
  const { code, lines } = await ending(signpost);
  assertEquals([code, lines.length], [1, 1], signpost.log);
  assertMatch(lines[0] ?? "", / ERROR .*10\.96\.0\.1/);
});

test("an API server that turns out to be a cluster IP is refused before any rule", async () => {
  const kubernetes = buildService({ name: "kubernetes", ports: [{ port: 443 }] });
  await using stage = await Stage.create({ objects: [...WEB, kubernetes] });
  // Another proxy makes it work for now.
  await stage.network.applyNft(`table ip other {
  chain output {
    type nat hook output priority -100
    ip daddr 10.96.0.1 tcp dport 443 dnat to 127.0.0.1:${stage.api.options.port}
  }
}\n`);
  const before = await kernelOf(stage);
  await stage.nameServer("10.96.0.1", 443);
  await using signpost = stage.start();
  const { code, lines } = await ending(signpost);
  assertEquals(code, 1, signpost.log);
  assertMatch(lines.at(-1) ?? "", / ERROR .*10\.96\.0\.1.*default\/kubernetes/);
  assertEquals(await kernelOf(stage), before);
});

test("a bad configuration gives one line for each error", async () => {
  await using stage = await Stage.create({
    objects: WEB,
    config: {
      mode: "userspace",
      clusterCIDR: "10.244.0.0/99",
      nftables: { syncPeriod: 7 },
      nonsense: 1,
    },
  });
  const before = await kernelOf(stage);
  await using signpost = stage.start(["--masquerade-bit", "40"]);
  const { code, lines } = await ending(signpost);
  assertEquals(code, 2, signpost.log);
  for (
    const error of [
      /mode.*userspace/,
      /clusterCIDR.*10\.244\.0\.0\/99/,
      /nftables\.syncPeriod/,
      /nonsense/,
      /masquerade-bit/,
    ]
  ) assertEquals(lines.filter((line) => error.test(line)).length, 1, `${error} in ${signpost.log}`);
  assertEquals(await kernelOf(stage), before);
});

const A = ADDRESSES[4];

/** Has node ports at the node's second address alone. */
const AT_SECOND = { nodePortAddresses: [A.nodeSecondCIDR] };

/** Clients' connections to node ports that only one address of the node has. */
function nodePortsAt(served: string, host: EndpointHost = "local1"): Flow[] {
  return [A.node, A.nodeSecond].map((to) => ({
    from: "client",
    to,
    port: NODE_PORT,
    protocols: ["tcp"],
    reaches: to === served ? [host] : "reject",
    masqueraded: true,
  }));
}

test("SIGHUP: a bad configuration is refused", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced();
  await stage.flowsBecome(signpost, nodePortsAt(A.node));

  await stage.configure(AT_SECOND);
  signpost.kill("SIGHUP");
  await signpost.until("another full sync", () => syncs(signpost, "full") === 2);
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond));

  await stage.configure({ nodePortAddresses: ["nowhere"] });
  signpost.kill("SIGHUP");
  await signpost.waitForLog(
    /ERROR the new configuration is refused, and the old one stays: .*nowhere/,
  );
  stage.apply(slice(A, ["local2"]));
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond, "local2"));

  await stage.configure();
  signpost.kill("SIGHUP");
  await stage.flowsBecome(signpost, nodePortsAt(A.node, "local2"));
  assertEquals((await signpost.stop()).code, 0);
});

/** The same objects as a manifest. */
const MANIFESTS = JSON.stringify({
  apiVersion: "v1",
  kind: "List",
  items: [...clusterObjects(A), ...WEB],
});

test("a configuration is refused while its manifests cannot be read", async () => {
  await using stage = await Stage.create();
  const manifests = `${stage.folder}/objects.json`;
  await Deno.writeTextFile(manifests, MANIFESTS);
  await using signpost = await stage.startSynced(["--manifests", manifests]);
  await Deno.writeTextFile(manifests, "{");
  await signpost.waitForLog(/WARN manifest refused; its last good state stays/);
  await stage.configure(AT_SECOND);
  signpost.kill("SIGHUP");
  await signpost.waitForLog(
    /ERROR the new configuration is refused, and the old one stays: .*objects\.json/,
  );
  await stage.flowsBecome(signpost, nodePortsAt(A.node));
  await Deno.writeTextFile(manifests, MANIFESTS);
  await signpost.until("another full sync", () => syncs(signpost, "full") === 2);
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond));
  assertEquals((await signpost.stop()).code, 0);
});

test("a configuration is read again though the objects came on the standard input", async () => {
  await using stage = await Stage.create();
  const manifests = `${stage.folder}/objects.json`;
  await Deno.writeTextFile(manifests, MANIFESTS);
  const command = ["sh", "-c", `exec "$@" < ${manifests}`, "sh", ...signpostCommand()];
  await using signpost = stage.start(["--manifests=-"], { command });
  await signpost.until("the first sync", () => syncs(signpost, "full") === 1);
  await stage.configure(AT_SECOND);
  signpost.kill("SIGHUP");
  await signpost.until("another full sync", () => syncs(signpost, "full") === 2);
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond));
});

test("SIGHUP without a change touches nothing", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced();
  signpost.kill("SIGHUP");
  await signpost.waitForLog(/INFO the configuration has not changed/);
  stage.apply(slice(ADDRESSES[4], ["local2"]));
  await stage.flowsBecome(signpost, [
    { from: "pod", to: ADDRESSES[4].clusterIP, reaches: ["local2"] },
  ]);
  assertEquals(syncs(signpost, "full"), 1);
});

test("a reload keeps the nat chains before those of other proxies, a stop does not", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced();
  const file = `${stage.folder}/chains`;
  const watch = `nft monitor new chains > ${file} 2>&1 & echo $!`;
  const pid = (await stage.network.run(NODE, ["sh", "-c", watch])).trim();
  const priorities = async () => {
    const lines = (await Deno.readTextFile(file)).matchAll(/ nat-prerouting .* priority ([^;]+);/g);
    return [...lines].map(([, priority]) => priority);
  };
  for (const round of [2, 3]) {
    await stage.configure({ configSyncPeriod: `${round}m` });
    signpost.kill("SIGHUP");
    await signpost.until("another full sync", () => syncs(signpost, "full") === round);
  }
  const reloaded = await priorities();
  await signpost.stop();
  const stopped = await priorities();
  await stage.network.run(NODE, ["kill", pid]);
  assertEquals(new Set(reloaded), new Set(["dstnat - 1"]));
  assertEquals(stopped.at(-1), "dstnat + 1");
});

test("a reload leaves no probe without a good answer", async () => {
  const a = ADDRESSES[4];
  const healthCheckNodePort = 32_000;
  const spec = {
    type: "LoadBalancer",
    externalTrafficPolicy: "Local",
    healthCheckNodePort,
    clusterIP: a.clusterIP2,
    ports: [{ name: "tcp", protocol: "TCP", port: 80 }],
  };
  const balanced = service(a, { name: "balanced", spec, ingress: [{ ip: a.loadBalancer }] });
  const objects = [...WEB, balanced, slice(a, ["local1"], { service: "balanced" })];
  await using stage = await Stage.create({ objects });
  await using signpost = await stage.startSynced();
  const probe = (port: number, address = a.node) =>
    stage.get("/healthz", port, address).then(({ status }) => status, () => 0);
  for (const port of [HEALTH_PORT, healthCheckNodePort]) {
    await signpost.until(`an answer at ${port}`, async () => await probe(port) === 200);
  }
  for (const round of [2, 3, 4]) {
    await stage.configure({ configSyncPeriod: `${round}m` });
    signpost.kill("SIGHUP");
    const seen = new Set<number>();
    await signpost.until("another full sync", async () => {
      for (let i = 0; i < 10; i++) {
        seen.add(await probe(HEALTH_PORT)).add(await probe(healthCheckNodePort));
      }
      return syncs(signpost, "full") === round;
    });
    assertEquals([...seen], [200]);
  }
  await stage.configure({ healthzBindAddress: `127.0.0.1:${HEALTH_PORT}` });
  signpost.kill("SIGHUP");
  await signpost.until("another address", async () => {
    return await stage.get("/healthz", HEALTH_PORT, a.node).then(() => false, () => true);
  });
  const isServed = async () => await probe(HEALTH_PORT, a.loopback) === 200;
  await signpost.until("the health server", isServed);
});

/** Mounts a configuration as kubelet mounts a ConfigMap: the file is a link through `..data`. */
async function mountConfigMap(stage: Stage, version: number): Promise<void> {
  const { folder } = stage;
  await Deno.mkdir(`${folder}/mount/..v${version}`, { recursive: true });
  await Deno.copyFile(`${folder}/config.yaml`, `${folder}/mount/..v${version}/config.yaml`);
  await Deno.symlink(`..v${version}`, `${folder}/mount/..data_tmp`);
  await Deno.rename(`${folder}/mount/..data_tmp`, `${folder}/mount/..data`);
  if (version === 1) await Deno.symlink("..data/config.yaml", `${folder}/mount/config.yaml`);
}

test("TestConfigChange: a changed ConfigMap is taken over", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await mountConfigMap(stage, 1);
  await using signpost = await stage.startSynced(["--config", `${stage.folder}/mount/config.yaml`]);
  await stage.flowsBecome(signpost, nodePortsAt(A.node));

  await stage.configure(AT_SECOND);
  await mountConfigMap(stage, 2);
  await signpost.waitForLog(/INFO the configuration was read again/);
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond));

  await stage.configure({ nodePortAddresses: ["nowhere"] });
  await mountConfigMap(stage, 3);
  await signpost.waitForLog(
    /ERROR the new configuration is refused, and the old one stays: .*nowhere/,
  );
  await stage.flowsBecome(signpost, nodePortsAt(A.nodeSecond));
  assertEquals((await signpost.stop()).code, 0);
});

test("the log says once when the kernel has the rules", async () => {
  await using stage = await Stage.create({ objects: WEB });
  await using signpost = await stage.startSynced();
  stage.apply(slice(ADDRESSES[4], ["local2"]));
  await signpost.until("another sync", () => syncs(signpost, "partial") > 0);
  await signpost.stop();
  assertEquals(signpost.log.match(/ INFO ready services=1 in=\d+ms\n/g)?.length, 1);
  assertMatch(signpost.log, / INFO stopped; the rules stay in the kernel\n$/);
});
