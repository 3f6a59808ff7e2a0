import { assert, assertEquals } from "@std/assert";
import type { IptablesDataplane } from "../../../lib/backend/iptables/dataplane.ts";
import type { Variant } from "../../../lib/backend/iptables/kernel/programs.ts";
import { programName } from "../../../lib/backend/iptables/script/names.ts";
import { FAMILIES } from "../../../lib/model/values/address.ts";
import { runnerIn } from "../../support/command.ts";
import { wholeInput } from "../../support/whole_input.ts";
import { Network } from "../../support/network.ts";
import { addAddress } from "../../support/topology.ts";
import { type ApiObject, NODE_NAME, Pipeline } from "../../support/pipeline.ts";
import { newDataplane, VARIANTS } from "./kernel.ts";
import { sideBySide } from "../../support/side_by_side.ts";
import { service, slice } from "../../support/cluster.ts";

const test = sideBySide("packets between two commits", 6);

// iptables-restore commits table by table: what a new connection meets after each of them.

const POD = { 4: "10.244.0.11", 6: "fd00:10:244::11" };
const VIP = { 4: "10.96.0.1", 6: "fd00:10:96::1" };
const EXTERNAL = { 4: "203.0.113.80", 6: "2001:db8:80::1" };
const NODE = { 4: "192.168.0.2", 6: "2001:db8::2" };
const CLIENT = { 4: "203.0.113.10", 6: "2001:db8:1::10" };
const NODE_PORT = 30_080;
const OWN_PORT = 22;
const TOPOLOGY = {
  node: Object.values(NODE),
  hosts: { web: Object.values(POD), client: Object.values(CLIENT) },
};

const RANGES = {
  client: ["203.0.113.0/24", "2001:db8:1::/64"],
  others: ["198.51.100.0/24", "2001:db8:99::/64"],
};

/** The Service: the nodes of its endpoints, and its external traffic policy. */
interface Web {
  readonly endpoints?: readonly string[];
  readonly local?: boolean;
  /** Its external IPs are a load balancer's, which is for these sources. */
  readonly ranges?: readonly string[];
}

/** A node whose dataplane gives each table to the kernel by itself. */
class Stage implements AsyncDisposable {
  readonly #pipeline = new Pipeline({
    mode: "iptables",
    configuration: { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] },
  });
  readonly #dataplane: IptablesDataplane;
  #afterEach = () => Promise.resolve();

  private constructor(readonly network: Network, variant: Variant) {
    const { run } = runnerIn(network.namespaceOf("node"));
    this.#dataplane = newDataplane({
      runner: {
        run: async (argv, stdin) => {
          if (stdin === undefined) return await run(argv);
          let result = { code: 0, stdout: "", stderr: "" };
          const input = await wholeInput(stdin);
          for (const text of input.split(/(?<=^COMMIT\n)/m)) {
            result = await run(argv, text);
            if (result.code !== 0) break;
            await this.#afterEach();
          }
          return result;
        },
      },
      variant,
    });
  }

  static async create(variant: Variant): Promise<Stage> {
    const network = await Network.create(TOPOLOGY);
    network.serve("web", { protocol: "tcp", port: 8080 });
    network.serve("node", { protocol: "tcp", port: OWN_PORT, address: "::" });
    return new Stage(network, variant);
  }

  /** Brings the Service to a state. @returns what each address gave after each commit */
  async apply(kind: "full" | "partial", web: Web): Promise<string[][]> {
    if (kind === "full") this.#pipeline.load(objects(web));
    const script = kind === "full"
      ? this.#dataplane.full(this.#pipeline.desired)
      : this.#pipeline.step(this.#dataplane, objects(web));
    const seen: string[][] = [];
    this.#afterEach = async () => {
      seen.push(await this.answers());
    };
    await this.#dataplane.apply(script);
    return seen;
  }

  /** Asks the virtual IPs, the node port and a port of the node's own, from a client and from the node. */
  async answers(): Promise<string[]> {
    const targets = FAMILIES.flatMap((family) =>
      ["client", "node"].flatMap((from) => [
        { from, address: VIP[family], port: 80 },
        { from, address: EXTERNAL[family], port: 80 },
        { from, address: EXTERNAL[family], port: OWN_PORT },
        { from, address: NODE[family], port: NODE_PORT },
      ])
    );
    return await Promise.all(targets.map(async (target) => {
      const [outcome] = await this.network.connect(target);
      const answer = outcome?.type === "answer" ? outcome.answer.host : outcome?.type;
      return `${target.from} to ${target.address} ${target.port}: ${answer}`;
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.network[Symbol.asyncDispose]();
  }
}

function objects({ endpoints = [NODE_NAME], local = false, ranges }: Web): ApiObject[] {
  return [
    service({
      ...ranges
        ? { type: "LoadBalancer", loadBalancerSourceRanges: ranges }
        : { type: "NodePort", externalIPs: Object.values(EXTERNAL) },
      clusterIP: VIP[4],
      clusterIPs: Object.values(VIP),
      externalTrafficPolicy: local ? "Local" : "Cluster",
      ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: NODE_PORT }],
      ...ranges && { ingress: Object.values(EXTERNAL) },
    }),
    ...FAMILIES.map((family) =>
      slice({
        name: `web-${family}`,
        addressType: `IPv${family}`,
        ports: [{ name: "http", port: 8080, protocol: "TCP" }],
        endpoints: endpoints.map((node) => `${POD[family]}@${node}`),
      })
    ),
  ];
}

/** Each answer is the one of before or of afterwards, and those differ where they are to. */
function assertNoOther(
  { was, seen, is }: Readonly<Record<"was" | "is", string[]>> & { readonly seen: string[][] },
): void {
  assert(seen.length >= 2 * FAMILIES.length, `${seen.length} commits`);
  for (const answers of seen) {
    assertEquals(answers.filter((each, i) => each !== was[i] && each !== is[i]), []);
  }
}

for (const variant of VARIANTS) {
  for (const kind of ["partial", "full"] as const) {
    for (
      const [what, before, after] of [
        ["lost its endpoints", {}, { endpoints: [] }],
        ["got endpoints", { endpoints: [] }, {}],
        ["lost its local endpoints", { local: true }, { local: true, endpoints: ["node-2"] }],
        ["got local endpoints", { local: true, endpoints: ["node-2"] }, { local: true }],
        ["got source ranges", { ranges: [] }, { ranges: RANGES.others }],
        ["lost its source ranges", { ranges: RANGES.others }, { ranges: [] }],
      ] as const
    ) {
      test(`iptables${variant}, ${kind}: each commit keeps a Service that ${what}`, async () => {
        await using stage = await Stage.create(variant);
        await stage.apply("full", before);
        const was = await stage.answers();
        const seen = await stage.apply(kind, after);
        const is = await stage.answers();
        assertNoOther({ was, seen, is });
        assert(was.some((each, i) => each !== is[i]), `${was}`);
      });
    }
  }

  for (const [whom, web] of [["all", {}], ["some sources", { ranges: RANGES.client }]] as const) {
    test(`iptables${variant}: take-over commits serve the node's virtual IP to ${whom}`, async () => {
      await using stage = await Stage.create(variant);
      const { network } = stage;
      for (const family of FAMILIES) {
        await network.ip("node", [addAddress(EXTERNAL[family], "lo")]);
        // In the place of a virtual server; the filter is of kube-proxy's ipvs mode.
        network.serve("node", { protocol: "tcp", port: 80, address: EXTERNAL[family] });
        const jump = '-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER';
        const filter = [
          "*filter",
          ":KUBE-IPVS-FILTER - [0:0]",
          ":KUBE-PROXY-FIREWALL - [0:0]",
          "-I INPUT -j KUBE-PROXY-FIREWALL",
          `-I INPUT ${jump}`,
          `-A KUBE-IPVS-FILTER -p tcp -d ${EXTERNAL[family]} --dport ${OWN_PORT} -j REJECT`,
          "COMMIT",
          "",
        ];
        const program = programName(family, "-restore", variant);
        await network.run("node", [program, "--noflush"], { stdin: filter.join("\n") });
      }
      const was = await stage.answers();
      const seen = await stage.apply("full", web);
      assertNoOther({ was, seen, is: await stage.answers() });
    });
  }
}
