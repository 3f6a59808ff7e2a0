import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml";
import { serveSocket } from "../../lib/system/socket.ts";
import { NftablesDataplane } from "../../lib/backend/nftables/dataplane.ts";
import { verificationTable, verify } from "../../lib/cli/verify.ts";
import type { OutputFormat } from "../../lib/config/command.ts";
import type { Verification } from "../../lib/model/kernel/differences.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { STATUS } from "../observe/page/contents.ts";
import { Kernel } from "../backend/nftables/kernel.ts";
import { realClock } from "../support/clock_and_log.ts";
import { configuration, DEFAULTS } from "../support/configuration.ts";
import { type ApiObject, Pipeline } from "../support/pipeline.ts";
import { type World, world } from "./runtime.ts";
import { WEB_SERVICE, webSlice } from "../support/web_service.ts";
import { node as buildNode } from "../support/cluster.ts";

/** A kernel, manifests, and a socket's path. */
class Node implements AsyncDisposable {
  readonly #resources: AsyncDisposableStack;

  private constructor(
    readonly kernel: Kernel,
    readonly folder: string,
    resources: AsyncDisposableStack,
  ) {
    this.#resources = resources;
  }

  /** One Service with two endpoints, in manifests and kernel. */
  static async create(): Promise<Node> {
    await using resources = new AsyncDisposableStack();
    const folder = await Deno.makeTempDir({ prefix: "signpost-verify-" });
    resources.defer(() => Deno.remove(folder, { recursive: true }));
    const node = new Node(resources.use(await Kernel.create()), folder, resources);
    await node.write(TWO);
    await node.apply(TWO);
    return new Node(node.kernel, folder, resources.move());
  }

  get socket(): string {
    return `${this.folder}/s.sock`;
  }

  /** Gives the Service these endpoints in the manifests. */
  async write(addresses: readonly string[]): Promise<void> {
    const list = { apiVersion: "v1", kind: "List", items: objects(addresses) };
    await Deno.writeTextFile(`${this.folder}/objects.json`, JSON.stringify(list));
  }

  /** Gives the Service these endpoints in the kernel. */
  async apply(addresses: readonly string[]): Promise<void> {
    const pipeline = new Pipeline();
    pipeline.load(objects(addresses));
    const dataplane = new NftablesDataplane(this.kernel.nft);
    await dataplane.apply(dataplane.full(pipeline.desired));
  }

  async verify(
    options: {
      readonly fix?: boolean;
      readonly output?: OutputFormat;
      /** Runs between the two looks. */
      readonly meanwhile?: () => Promise<void>;
      readonly runner?: ProcessRunner;
    } = {},
  ): Promise<World & { readonly code: number }> {
    const { fix = false, output = "json", meanwhile, runner = this.kernel.runner } = options;
    const it = world({ runner, interfaces: () => [] });
    const { clock } = it.runtime;
    const runtime = {
      ...it.runtime,
      clock: {
        ...clock,
        sleep: async (milliseconds: number, signal?: AbortSignal) => {
          if (signal?.aborted) return;
          await clock.sleep(milliseconds);
          if (milliseconds < 60_000) await meanwhile?.();
          // Only the limit of the reading takes for ever.
          if (milliseconds >= 60_000) await new Promise<void>(() => {});
        },
      },
    };
    const code = await verify({ name: "verify", fix, timeout: 60_000, output }, {
      runtime,
      logger: it.logger,
      nodeName: "node-1",
      signal: new AbortController().signal,
      configuration: configuration({
        signpost: { ...DEFAULTS.signpost, manifests: [this.folder], socket: this.socket },
      }),
    });
    return { ...it, code };
  }

  async report(options: Parameters<Node["verify"]>[0] = {}): Promise<Verification> {
    return JSON.parse((await this.verify(options)).printed.join(""));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

const TWO: readonly string[] = ["10.244.1.1", "10.244.1.2"];

function objects(addresses: readonly string[]): ApiObject[] {
  return [buildNode({ addresses: ["192.0.2.1"] }), WEB_SERVICE, webSlice(addresses)];
}

const VIP = "delete element inet signpost services4 { 10.96.0.10 . tcp . 80 }";
const SLOT = "delete element inet signpost nodeport-endpoints-tcp4 { 30080 . 1 }";

Deno.test("a kernel that has the desired rules is exit code 0", async () => {
  await using node = await Node.create();
  const { code, printed } = await node.verify({ output: "table" });
  assertEquals(code, 0);
  assertEquals(
    printed.join(""),
    `nftables on node-1: 1 service with 1 port, 56 elements and rules
the kernel has the desired rules
`,
  );
});

Deno.test("differences are listed by map, with the Service that they concern", async () => {
  await using node = await Node.create();
  await node.kernel.script(
    `${VIP}\n${SLOT}\nadd element inet signpost cluster-ips4 { 10.96.0.99 }`,
  );
  const { code, printed } = await node.verify({ output: "table" });
  assertEquals(code, 1);
  assertEquals(
    printed.join(""),
    `nftables on node-1: 1 service with 1 port, 56 elements and rules
3 differences

cluster-ips4
  extra  10.96.0.99

nodeport-endpoints-tcp4
  missing  30080 . 1 : 10.244.1.2 . 8080  shop/web:http

services4
  missing  10.96.0.10 . tcp . 80 : goto pick-endpoints4-tcp-2  shop/web:http
`,
  );
  const report = await node.report();
  assertEquals(report.verifyVersion, 1);
  assertEquals([report.same, report.fix, report.otherProxies], [false, null, []]);
  assertEquals(report.differences[2], {
    type: "missing",
    in: "services4",
    key: "10.96.0.10 . tcp . 80",
    desired: "goto pick-endpoints4-tcp-2",
    held: "",
    service: "shop/web:http",
  });
  const yaml = await node.verify({ output: "yaml" });
  assertEquals(parse(yaml.printed.join("")), JSON.parse(JSON.stringify(report)));
});

Deno.test("a table that is gone is one difference", async () => {
  await using node = await Node.create();
  await node.kernel.script("delete table inet signpost");
  const { differences } = await node.report();
  assertEquals(differences.map(({ type, in: place }) => `${type} ${place}`), [
    "missing table inet signpost",
  ]);
});

Deno.test("what changes while it is compared is looked at again", async () => {
  await using node = await Node.create();
  await node.write(["10.244.1.1"]);
  const { code } = await node.verify({ meanwhile: () => node.apply(["10.244.1.1"]) });
  assertEquals(code, 0);
  await node.write(["10.244.1.1", "10.244.1.3"]);
  assertEquals((await node.verify()).code, 1);
});

Deno.test("a change between two looks is not a difference", async () => {
  await using node = await Node.create();
  await node.write(["10.244.1.1"]);
  const meanwhile = () => node.apply(["10.244.1.3"]);
  const report = await node.report({ meanwhile });
  assertEquals([report.same, report.differences], [true, []]);
  assertEquals(new Set(report.inFlight.map(({ service }) => service)), new Set(["shop/web:http"]));
  await node.apply(TWO);
  const { code, printed } = await node.verify({ meanwhile, output: "table" });
  assertEquals(code, 0);
  assertMatch(printed.join(""), /the kernel has the desired rules\n\nin flight: [^]*10\.244\.1\.3/);
});

Deno.test("--fix without a difference asks no daemon", async () => {
  await using node = await Node.create();
  const { fix } = await node.report({ fix: true });
  assertEquals(fix?.result, "unneeded");
});

Deno.test("--fix needs a daemon", async () => {
  await using node = await Node.create();
  await node.kernel.script(VIP);
  const { code, printed } = await node.verify({ fix: true, output: "table" });
  assertEquals(code, 1);
  assertMatch(printed.join(""), /no daemon answers at/);
});

/** A daemon that answers, and does as it is told by `write`. */
function daemon(node: Node, write: () => Promise<void>) {
  const stop = new AbortController();
  let written = 0;
  const status = () => ({
    ...STATUS,
    syncs: STATUS.syncs.map((sync) => ({ ...sync, at: new Date(written).toISOString() })),
  });
  const done = serveSocket({
    path: node.socket,
    routes: {
      "GET /v1/status": status,
      "GET /v1/inputs": () => ({ ownPorts: null, heldBack: [] }),
      "POST /v1/full-sync": () => {
        void write().then(() => written += 1);
        return { requested: true };
      },
    },
    clock: realClock,
    logger: world().logger,
    signal: stop.signal,
  });
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
    },
  };
}

Deno.test("--fix that does not help says what may be the matter", async () => {
  await using node = await Node.create();
  await using _ = daemon(node, () => Promise.resolve());
  await node.kernel.script(VIP);
  const { code, printed } = await node.verify({ fix: true });
  assertEquals(code, 1);
  const { fix, differences }: Verification = JSON.parse(printed.join(""));
  assertEquals([fix?.result, differences.length], ["differs", 1]);
  assertMatch(fix?.message ?? "", /compare the flags of the daemon/);
});

Deno.test("--fix with a daemon that does not get to it gives up", async () => {
  await using node = await Node.create();
  await using _ = daemon(node, () => new Promise(() => {}));
  await node.kernel.script(VIP);
  const { fix } = await node.report({ fix: true });
  assertEquals(fix?.result, "failed");
});

Deno.test("refused objects are reported", async () => {
  await using node = await Node.create();
  await Deno.writeTextFile(
    `${node.folder}/bad.yaml`,
    "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: bad}\n" +
      "spec: {clusterIP: 10.96.0.20, ports: [{port: 0}]}\n",
  );
  const { code, complaints } = await node.verify();
  assertEquals(code, 0);
  assertMatch(complaints.join("\n"), /object refused.*shop\/bad/);
});

Deno.test("only the kind of a difference has a colour", () => {
  const report: Verification = {
    verifyVersion: 1,
    node: "node-1",
    mode: "nftables",
    same: false,
    services: 1,
    servicePorts: 1,
    compared: 65,
    differences: [{
      type: "extra",
      in: "cluster-ips4",
      key: "10.96.0.99",
      desired: "",
      held: "",
      service: "",
    }],
    inFlight: [],
    heldBack: [{ service: "missing/web", reason: "over a limit" }],
    otherProxies: [],
    fix: null,
    objects: { from: "daemon", asOf: "2026-01-02T03:04:05.000Z" },
  };
  const paint = (text: string, colour: string) => `<${colour} ${text}>`;
  const text = verificationTable(report, { paint, parts: "elements and rules" });
  assertStringIncludes(text, "\n  <yellow extra>  10.96.0.99\n");
  assertStringIncludes(text, "\n  missing/web  over a limit\n");
});
