import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { compareSaved } from "../../../../lib/backend/iptables/kernel/compare.ts";
import { IptablesDataplane } from "../../../../lib/backend/iptables/dataplane.ts";
import { fullInput } from "../../../../lib/backend/iptables/script/full.ts";
import { parseSaved } from "../../../../lib/backend/iptables/kernel/saved.ts";
import { FAMILIES } from "../../../../lib/model/address.ts";
import type { DesiredState } from "../../../../lib/model/desired.ts";
import type { Difference } from "../../../../lib/model/verification.ts";
import { cluster } from "../../../support/arbitrary.ts";
import { type ApiObject, Pipeline } from "../../../support/pipeline.ts";
import { BACKENDS, Kernel } from "../kernel.ts";

const CLUSTER_CIDR = { clusterCIDRs: ["10.244.0.0/16", "fd00:10:244::/48"] };
const ABILITIES = { randomFully: true };

function newDataplane(kernel: Kernel): IptablesDataplane {
  return new IptablesDataplane({
    runner: kernel.runner,
    iptables: { backend: kernel.backend, families: FAMILIES, abilities: ABILITIES },
    routeLocalnet: () => Promise.resolve(),
  });
}

async function differences(kernel: Kernel, state: DesiredState): Promise<Difference[]> {
  const all = await Promise.all(FAMILIES.map(async (family) =>
    compareSaved(
      fullInput(state, { family, abilities: ABILITIES }),
      parseSaved(await kernel.save(family)),
    )
  ));
  return all.flat();
}

const OBJECTS: readonly ApiObject[] = [{
  apiVersion: "v1",
  kind: "Service",
  metadata: { namespace: "shop", name: "web" },
  spec: {
    type: "NodePort",
    clusterIP: "10.96.0.10",
    ports: [{ name: "http", port: 80, nodePort: 30080 }],
  },
}, {
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: {
    namespace: "shop",
    name: "web-1",
    labels: { "kubernetes.io/service-name": "web" },
  },
  addressType: "IPv4",
  ports: [{ name: "http", port: 8080 }],
  endpoints: ["10.244.1.1", "10.244.1.2"].map((address) => ({
    addresses: [address],
    nodeName: "node-2",
  })),
}];

const SERVICE_RULE = '-d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" ' +
  "-m tcp --dport 80";
const JUMP = '-m comment --comment "kubernetes service portals"';

for (const backend of BACKENDS) {
  Deno.test(`after partial syncs between random states iptables${backend} compares equal`, async () => {
    await using kernel = await Kernel.create(backend);
    const dataplane = newDataplane(kernel);
    await fc.assert(
      fc.asyncProperty(cluster, cluster, async (a, b) => {
        const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
        pipeline.load(a);
        await dataplane.apply(dataplane.full(pipeline.desired));
        assertEquals(await differences(kernel, pipeline.desired), []);
        const { change } = pipeline.load(b);
        const step = dataplane.partial(change, pipeline.desired);
        await dataplane.apply(step ?? dataplane.full(pipeline.desired));
        assertEquals(await differences(kernel, pipeline.desired), []);
        const fresh = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
        fresh.load(b.toReversed());
        assertEquals(await differences(kernel, fresh.desired), []);
      }),
      { numRuns: Number(Deno.env.get("PROPERTY_RUNS") ?? 15) },
    );
  });

  Deno.test(`what was done by hand to iptables${backend} is found, chain by chain`, async () => {
    await using kernel = await Kernel.create(backend);
    const dataplane = newDataplane(kernel);
    const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
    pipeline.load(OBJECTS);
    await dataplane.apply(dataplane.full(pipeline.desired));
    const saved = parseSaved(await kernel.save(4)).get("nat");
    const chain = [...saved?.chains ?? []].find((name) => name.startsWith("KUBE-SVC-")) ?? "";
    const nat = [`iptables${backend}`, "-t", "nat"];

    await kernel.run(...nat, "-D", "PREROUTING", "-j", "KUBE-SERVICES", ...words(JUMP));
    await kernel.run(...nat, "-D", "KUBE-SERVICES", ...words(SERVICE_RULE), "-j", chain);
    await kernel.run(...nat, "-A", chain, "-j", "RETURN");
    await kernel.run(...nat, "-N", "KUBE-SVC-BYHAND");

    const nothing = { desired: "", held: "" };
    assertEquals(await differences(kernel, pipeline.desired), [
      {
        type: "missing",
        in: "iptables nat KUBE-SERVICES",
        key: `${SERVICE_RULE} -j ${chain}`,
        ...nothing,
      },
      { type: "extra", in: `iptables nat ${chain}`, key: "-j RETURN", ...nothing },
      {
        type: "missing",
        in: "iptables nat PREROUTING",
        key: `${JUMP} -j KUBE-SERVICES`,
        ...nothing,
      },
      { type: "extra", in: "iptables nat KUBE-SVC-BYHAND", key: "", ...nothing },
    ]);
  });

  Deno.test(`an iptables${backend} without rules of ours lacks every chain`, async () => {
    await using kernel = await Kernel.create(backend);
    const pipeline = new Pipeline({ mode: "iptables", configuration: CLUSTER_CIDR });
    pipeline.load(OBJECTS);
    const all = await differences(kernel, pipeline.desired);
    assertEquals(all.every(({ type }) => type === "missing"), true);
    assertEquals(all.length > 0, true);
  });
}

function words(rule: string): string[] {
  return [...rule.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}
