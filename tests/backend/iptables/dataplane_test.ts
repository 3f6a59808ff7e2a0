import { assertEquals, assertRejects } from "@std/assert";
import { PACKET_METRICS } from "../../../lib/backend/iptables/metrics.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { type ProcessRunner, ProgramMissingError } from "../../../lib/model/ports/ports.ts";
import { type ApiObject, Pipeline } from "../../support/pipeline.ts";
import { EXAMPLE } from "./example.ts";
import { Kernel, newDataplane, VARIANTS } from "./kernel.ts";

function load(objects: readonly ApiObject[]): Pipeline {
  const pipeline = new Pipeline({ mode: "iptables" });
  pipeline.load(objects);
  return pipeline;
}

/** A runner whose programs succeed without output; it notes the command lines. */
function recorder(): { readonly runner: ProcessRunner; readonly lines: string[] } {
  const lines: string[] = [];
  const runner: ProcessRunner = {
    run: (argv) => {
      lines.push(argv.join(" "));
      return Promise.resolve({ code: 0, stdout: "", stderr: "" });
    },
  };
  return { runner, lines };
}

Deno.test("a full script is applied with bounded waits for the lock, family after family", async () => {
  const { runner, lines } = recorder();
  const dataplane = newDataplane({ runner, variant: "-legacy" });
  await dataplane.apply(dataplane.full(load(EXAMPLE).desired));
  assertEquals(lines, [
    "iptables-legacy-save",
    "iptables-legacy-restore -w 5 --noflush",
    "ip6tables-legacy-save",
    "ip6tables-legacy-restore -w 5 --noflush",
  ]);
});

Deno.test("a partial script runs the programs of the families that change", async () => {
  const { runner, lines } = recorder();
  const dataplane = newDataplane({ runner });
  const pipeline = load(EXAMPLE);
  const script = pipeline.step(
    dataplane,
    EXAMPLE.filter(({ metadata }) => (metadata as { name: string }).name !== "cluster-6"),
  );
  await dataplane.apply(script);
  assertEquals(lines, ["ip6tables-restore -w 5 --noflush"]);
});

Deno.test("route_localnet is set after the rule that keeps neighbours from localhost", async () => {
  const { runner, lines } = recorder();
  const routeLocalnet = () => {
    lines.push("route_localnet");
    return Promise.resolve();
  };
  const dataplane = newDataplane({ runner, families: [4], routeLocalnet });
  await dataplane.apply(dataplane.full(load(EXAMPLE).desired));
  assertEquals(lines.indexOf("route_localnet"), lines.length - 1);
});

Deno.test("full scripts keep the packet counts of both families", async () => {
  const packets: Record<string, number> = {};
  const runner: ProcessRunner = {
    run: ([program]) => {
      const rule = "-A KUBE-FORWARD -m conntrack --ctstate INVALID";
      const listed = program.endsWith("tables") ? `${rule} -c ${packets[program]} 0 -j DROP\n` : "";
      return Promise.resolve({ code: 0, stdout: listed, stderr: "" });
    },
  };
  const dataplane = newDataplane({ runner });
  const counts = async (ipv4: number, ipv6: number) => {
    Object.assign(packets, { iptables: ipv4, ip6tables: ipv6 });
    await dataplane.readPackets();
    await dataplane.apply(dataplane.full(load(EXAMPLE).desired));
    return PACKET_METRICS.map(({ name }) => dataplane.packetsOf(name));
  };
  assertEquals([await counts(6, 1), await counts(8, 0)], [[7, 0], [15, 0]]);
});

Deno.test("a program that is not installed is named", async () => {
  const runner: ProcessRunner = { run: (argv) => Promise.reject(new ProgramMissingError(argv[0])) };
  const dataplane = newDataplane({ runner });
  const script = dataplane.full(load([]).desired);
  const error = await assertRejects(() => dataplane.apply(script), ApplyError);
  assertEquals(error.failure, "program-missing");
  assertEquals(error.message, "cannot run iptables-save: install iptables");
});

for (const variant of VARIANTS) {
  Deno.test(`iptables${variant}: a partial script over flushed rules is a conflict`, async () => {
    await using kernel = await Kernel.create(variant);
    const dataplane = newDataplane({ runner: kernel.runner, variant });
    const pipeline = load(EXAMPLE);
    await dataplane.apply(dataplane.full(pipeline.desired));
    const full = await kernel.state();

    await kernel.clear();
    const script = pipeline.step(dataplane, []);
    const error = await assertRejects(() => dataplane.apply(script), ApplyError);
    assertEquals(error.failure, "conflict");
    assertEquals((await kernel.state()).includes("KUBE"), false);

    await pipeline.apply(dataplane, EXAMPLE);
    assertEquals(await kernel.state(), full);
  });
}
