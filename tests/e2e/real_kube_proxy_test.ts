/**
 * The rows of docs/differences.md that have a †, tried with kube-proxy itself and with signpost.
 *
 * The environment variable `KUBE_PROXY_BIN` names kube-proxy, by default `dist/kube-proxy` is taken.
 * CONTRIBUTING.md says how it is built. Without it the rows are left out.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { isLoopback } from "../../lib/model/values/address.ts";
import { KUBERNETES_VERSION } from "../../lib/model/version.ts";
import { execute } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { httpGet } from "../support/http.ts";
import { Signpost, signpostCommand } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import { ADDRESSES, clusterObjects, type Manifest, NODE_PORT, service, slice } from "./cluster.ts";
import { METRICS_PORT, Stage, type StageOptions } from "./stage.ts";

const PROGRAM = Deno.env.get("KUBE_PROXY_BIN") ??
  new URL("../../dist/kube-proxy", import.meta.url).pathname;
const IS_THERE = await Deno.stat(PROGRAM).then(({ isFile }) => isFile, () => false);

const [A, A6] = [ADDRESSES[4], ADDRESSES[6]];

type Proxy = "kube-proxy" | "signpost";

function commandOf(proxy: Proxy): readonly string[] {
  return proxy === "signpost" ? signpostCommand() : [PROGRAM];
}

/** Runs a proxy that reads a configuration, prints what it makes of it, and ends. */
async function printed(proxy: Proxy, config: Manifest, args: readonly string[] = []) {
  const file = await Deno.makeTempFile({ prefix: "signpost-e2e-", suffix: ".yaml" });
  const head = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };
  await Deno.writeTextFile(file, JSON.stringify({ ...head, ...config }));
  const command = [...commandOf(proxy), "--config", file, "--write-config-to", "/dev/stdout"];
  const result = await execute([...command, ...args]);
  await Deno.remove(file);
  return result;
}

/** A proxy that runs on a stage of its own. */
interface Running {
  readonly stage: Stage;
  readonly proxy: Signpost;
  /** Writes the configuration file with these fields besides the usual. */
  configure(config?: Manifest): Promise<void>;
  /** Makes a change, and returns the exit code, or `undefined` if the proxy follows the change. */
  endAfter(
    change: () => void | Promise<void>,
    isFollowed: () => Promise<boolean>,
  ): Promise<number | undefined>;
}

/** Starts a proxy, waits for its first sync, and has it looked at. */
async function running(
  name: Proxy,
  options: StageOptions,
  look: (running: Running) => Promise<void>,
): Promise<void> {
  await using stage = await Stage.create(options);
  const configure = (config?: Manifest) => stage.configure({ ...config, ...connectionOf(stage) });
  await configure(options.config);
  await using proxy = start(name, stage);
  await proxy.until("an endpoint", async () => await answering(stage) === "local1");
  const endAfter: Running["endAfter"] = async (change, isFollowed) => {
    await change();
    const { code } = await eventually("an end, or what follows from the change", async () => {
      if (proxy.ended) return { code: proxy.ended.code };
      return await isFollowed() && { code: undefined };
    }, { deadline: 60_000 });
    return code;
  };
  await look({ stage, proxy, configure, endAfter });
}

/** Fields of the configuration; the stage's API server speaks JSON. */
function connectionOf({ folder }: Stage): Manifest {
  const json = "application/json";
  const kubeconfig = `${folder}/kubeconfig`;
  return { clientConnection: { acceptContentTypes: json, contentType: json, kubeconfig } };
}

function start(name: Proxy, stage: Stage): Signpost {
  const args = ["--config", `${stage.folder}/config.yaml`, "-v", "2"];
  const own = name === "signpost" ? ["--state-file="] : [];
  return Signpost.start(stage.network, [...args, ...own], { command: commandOf(name) });
}

const WEB = [service(A, { spec: { type: "NodePort" } }), slice(A, ["local1"])];

/** Returns the endpoint that answers at the cluster IP. */
async function answering({ network }: Stage): Promise<string | undefined> {
  const [outcome] = await network.connect({ from: "pod", address: A.clusterIP, port: 80 });
  return outcome?.type === "answer" ? outcome.answer.host : undefined;
}

/** The Node with one address. */
function nodeAt(address: string): Manifest {
  const node = clusterObjects(A).find(({ kind }) => kind === "Node");
  return { ...node, status: { addresses: [{ type: "InternalIP", address }] } };
}

/** The text of all rules and sets of the node. */
function rules({ network }: Stage): Promise<string> {
  return network.run(NODE, ["nft", "list", "ruleset"]);
}

async function reached({ network }: Stage, address: string): Promise<boolean> {
  const from = isLoopback(address) ? NODE : "client";
  const [outcome] = await network.connect({ from, address, port: NODE_PORT, protocol: "tcp" });
  return outcome?.type === "answer" && outcome.answer.host === "local1";
}

/** Tries a row with one of the programs. */
type Try = (proxy: Proxy) => Promise<void>;

/** By the first cell of the row. */
const ROWS: Readonly<Record<string, Try>> = {
  "flags beside `--config`": async (proxy) => {
    const { stdout } = await printed(proxy, {}, ["--nodeport-addresses=10.0.0.0/8"]);
    assertEquals(stdout.includes("10.0.0.0/8"), proxy === "signpost");
  },
  "unknown feature gate": async (proxy) => {
    const { code } = await printed(proxy, { featureGates: { NoSuchGate: true } });
    assertEquals(code === 0, proxy === "signpost");
  },
  "no min sync period (`0s` in the file)": async (proxy) => {
    const { stdout } = await printed(proxy, { nftables: { minSyncPeriod: "0s" } });
    assertMatch(stdout, proxy === "signpost" ? /minSyncPeriod"?: "?0s/ : /minSyncPeriod: 1s/);
  },
  "`kubernetes_build_info`": (proxy) =>
    running(proxy, { objects: WEB }, async ({ stage }) => {
      const { body } = await stage.get("/metrics", METRICS_PORT);
      const suffix = proxy === "signpost" ? "+signpost.0.1.0" : "";
      const version = /git_version="([^"]*)"/.exec(body)?.[1];
      assertEquals(version, `v${KUBERNETES_VERSION}${suffix}`);
    }),
  "metrics `go_*`, most of `process_*`": (proxy) =>
    running(proxy, { objects: WEB }, async ({ stage }) => {
      const { body } = await stage.get("/metrics", METRICS_PORT);
      const isThere = /^go_goroutines /m.test(body) && /^process_open_fds /m.test(body);
      assertEquals(isThere, proxy === "kube-proxy");
    }),
  "the Node's addresses change, or the Node is deleted": async (proxy) => {
    const config = { nodePortAddresses: ["primary"] };
    const code = proxy === "kube-proxy" ? 1 : undefined;
    await running(proxy, { objects: WEB, config }, async ({ stage, endAfter }) => {
      const move = () => stage.apply(nodeAt(A.nodeSecond));
      assertEquals(await endAfter(move, () => reached(stage, A.nodeSecond)), code);
    });
    await running(proxy, { objects: WEB }, async ({ stage, endAfter }) => {
      const change = () => {
        stage.remove("Node", "node1");
        stage.apply(slice(A, ["local2"]));
      };
      const isFollowed = async () => await answering(stage) === "local2";
      assertEquals(await endAfter(change, isFollowed), code);
    });
  },
  "the configuration file changes": (proxy) =>
    running(proxy, { objects: WEB }, async ({ stage, configure, endAfter }) => {
      const change = () => configure({ nodePortAddresses: ["all"] });
      const code = await endAfter(change, () => reached(stage, A.nodeSecond));
      assertEquals(code, proxy === "kube-proxy" ? 1 : undefined);
    }),
  "`nodePortAddresses: [primary]`, the Node has addresses of one family": async (proxy) => {
    const objects = [
      ...WEB,
      nodeAt(A.node),
      service(A6, { name: "web6", spec: { type: "NodePort" } }),
    ];
    const endpoints = slice(A6, ["local1"], { service: "web6" });
    const config = { nodePortAddresses: ["primary"] };
    await running(proxy, { objects: [...objects, endpoints], config }, async (it) => {
      assertEquals(await reached(it.stage, A.node), true);
      if (proxy === "signpost") assertEquals(await reached(it.stage, A6.node), false);
      else await it.proxy.until("a node port of IPv6", () => reached(it.stage, A6.node));
    });
  },
  "loopback, link-local or multicast addresses as virtual IPs": async (proxy) => {
    const metadata = "169.254.169.254";
    const objects = [
      service(A, { spec: { externalIPs: [metadata, A.externalIP] } }),
      slice(A, ["local1"]),
    ];
    await running(proxy, { objects }, async ({ stage }) => {
      const text = await rules(stage);
      assertEquals(text.includes(A.externalIP), true);
      assertEquals(text.includes(metadata), proxy === "kube-proxy");
    });
  },
  "stale UDP conntrack entries": (proxy) =>
    running(proxy, { objects: WEB }, async ({ stage, proxy: process }) => {
      const targets = [
        { from: "pod", address: A.clusterIP, port: 80, protocol: "udp" },
        { from: "client", address: A.node, port: NODE_PORT, protocol: "udp" },
      ] as const;
      for (const target of targets) await stage.network.connect(target);
      const entries = () =>
        stage.network.run(NODE, ["conntrack", "-L", "-p", "udp"]).then((text) =>
          [A.clusterIP, A.node].map((address) => text.includes(` dst=${address} sport`))
        );
      assertEquals(await entries(), [true, true]);
      stage.apply(slice(A, []));
      await process.until("a clean-up", async () => !(await entries())[0]);
      if (proxy === "kube-proxy") assertEquals(await entries(), [false, true]);
      else await process.until("a clean-up of node ports", async () => !(await entries())[1]);
    }),
  "a sysctl of connection tracking cannot be written": async (proxy) => {
    // Where the namespace is not the first, the kernel lets none write the limit.
    const conntrack = { maxPerCore: 500_000_000, min: 0 };
    await using stage = await Stage.create({ objects: WEB });
    await stage.configure({ conntrack, ...connectionOf(stage) });
    await using process = start(proxy, stage);
    if (proxy === "kube-proxy") assertEquals((await process.status).code, 1);
    else await process.waitForLog(/ WARN .*nf_conntrack_max/);
  },
};

/** Configurations that both take, or both refuse. */
const SETTINGS: readonly (readonly [isTaken: boolean, config: Manifest])[] = [
  [true, { nodePortAddresses: ["primary", "localhost", "all"] }],
  [true, { nodePortAddresses: ["localhost", "192.168.1.0/24", "fd00::/64"] }],
  [true, { nodePortAddresses: ["10.0.0.0/8", "10.0.0.0/8"] }],
  [false, { nodePortAddresses: ["localhost", "localhost"] }],
  [false, { nodePortAddresses: ["Localhost"] }],
  [false, { nodePortAddresses: ["10.0.0.1"] }],
  [true, { mode: "ipvs" }],
  [false, { mode: "ipvs", featureGates: { KubeProxyIPVS: false } }],
  [true, { mode: "nftables", featureGates: { KubeProxyIPVS: false } }],
  [false, { featureGates: { RelaxedServiceNameValidation: false } }],
  [false, { featureGates: { MultiCIDRServiceAllocator: false } }],
  [false, { featureGates: { NFTablesProxyMode: false } }],
  [false, { featureGates: { PreferSameTrafficDistribution: false } }],
  [true, { featureGates: { AllowServiceExternalIPs: false, NFTablesNetlink: false } }],
  [true, { featureGates: { KubeProxyNFTablesLocalhostNodePorts: true } }],
];

/** Settings of `nodePortAddresses`, and the addresses on which health-check node ports answer. */
const MIXES: readonly (readonly [setting: readonly string[], addresses: readonly string[]])[] = [
  [["all"], [A.node, A.nodeSecond, A.loopback, A6.node, A6.nodeSecond, A6.loopback]],
  [["localhost"], [A.loopback, A6.loopback]],
  [["primary", "localhost"], [A.node, A.loopback, A6.node, A6.loopback]],
  [["primary", A.nodeSecondCIDR], [A.node, A.nodeSecond, A6.node]],
  [[A6.nodeSecondCIDR, "localhost"], [A.loopback, A6.nodeSecond, A6.loopback]],
  [["127.0.0.1/32", "primary"], [A.node, A.loopback, A6.node]],
];

/** Health-check node ports are where node ports are. */
const HEALTH_NODE_PORT = 32_000;
const DUAL_STACK = [
  service(A, {
    spec: {
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: HEALTH_NODE_PORT,
      clusterIPs: [A.clusterIP, A6.clusterIP],
      ipFamilies: ["IPv4", "IPv6"],
    },
  }),
  slice(A, ["local1"]),
  slice(A6, ["local1"], { name: "web-6" }),
];

/** Waits until node ports and health-check node ports answer on exactly these addresses. */
async function answersOn(proxy: Proxy, config: Manifest, addresses: readonly string[]) {
  await running(proxy, { objects: DUAL_STACK, config }, async ({ stage, proxy: process }) => {
    // The kernel routes from no ::1; loopback in nftables mode is a matter of listeners.
    const hasNodePorts = addresses.filter((address) => address !== A6.loopback);
    for (const address of MIXES[0]?.[1] ?? []) {
      await process.until(`health checks at ${address}`, async () => {
        const where = isLoopback(address) ? { from: NODE, source: address } : { from: "client" };
        const request = { ...where, address, port: HEALTH_NODE_PORT, path: "/" };
        const isOpen = await httpGet(stage.network, request).then(() => true, () => false);
        return isOpen === addresses.includes(address);
      });
      if (config.mode === "nftables" && isLoopback(address)) continue;
      await process.until(
        `node ports at ${address}`,
        async () => await reached(stage, address) === hasNodePorts.includes(address),
      );
    }
  });
}

Deno.test("the rows of docs/differences.md that have a † are tried here", async () => {
  const text = await Deno.readTextFile(new URL("../../docs/differences.md", import.meta.url));
  const subjects = [...text.matchAll(/^\| † (.*?) \| /gm)].map(([, subject]) => subject);
  assertEquals(subjects.sort(), Object.keys(ROWS).sort());
});

if (!IS_THERE) {
  Deno.test("without kube-proxy the table is not tried", () => {
    // deno-lint-ignore no-console
    console.log(`no kube-proxy at ${PROGRAM}: the rows of docs/differences.md are not tried`);
  });
} else {
  Deno.test("the kube-proxy that is compared with is the one that signpost names", async () => {
    const { stdout } = await execute([PROGRAM, "--version"]);
    assertEquals(stdout.trim(), `Kubernetes v${KUBERNETES_VERSION}`);
  });
  for (const mode of ["nftables", "iptables"]) {
    for (const [nodePortAddresses, addresses] of MIXES) {
      for (const proxy of ["kube-proxy", "signpost"] as const) {
        Deno.test(`${proxy}, ${mode} mode: node ports are on ${nodePortAddresses}`, async () => {
          await answersOn(proxy, { mode, nodePortAddresses }, addresses);
        });
      }
    }
  }
  for (const proxy of ["kube-proxy", "signpost"] as const) {
    for (const [subject, row] of Object.entries(ROWS)) {
      Deno.test(`${proxy}: ${subject}`, () => row(proxy));
    }
    for (const [isTaken, config] of SETTINGS) {
      const verb = isTaken ? "takes" : "refuses";
      Deno.test(`${proxy} ${verb} ${JSON.stringify(config)}`, async () => {
        const { code, stderr } = await printed(proxy, config);
        assertEquals(code === 0, isTaken, stderr);
      });
    }
  }
}
