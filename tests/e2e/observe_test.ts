/** `signpost observe`: connections of real clients as they begin and end. */
import { assertEquals, assertMatch } from "@std/assert";
import type { ObservedEvent } from "../../lib/cli/observe.ts";
import { eventually } from "../support/eventually.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { FileStage } from "./case.ts";
import { observing } from "./observing.ts";
import { Stage } from "./stage.ts";
import {
  ADDRESSES,
  DROP_TARGET_PORT,
  type Manifest,
  PORT,
  service,
  slice,
  slicePorts,
} from "./cluster.ts";

const test = sideBySide("signpost observe");

for (const family of [4, 6] as const) {
  for (const mode of ["nftables", "iptables"] as const) {
    test(`it shows each connection to a Service with its end, IPv${family}, ${mode}`, async () => {
      const a = ADDRESSES[family];
      await using stage = await FileStage.createWithRules({
        a,
        objects: [
          service(a),
          slice(a, ["local1"]),
          service(a, { name: "wrong", spec: { clusterIP: a.clusterIP2 } }),
          slice(a, ["remote1"], { service: "wrong", ports: slicePorts(7777) }),
        ],
        config: { mode },
      });
      const { network, args } = stage;
      const connect = (address: string, from: "pod" | "client" = "pod") =>
        network.connect({ from, address, port: PORT });
      const work = async () => {
        await connect(a.clusterIP);
        await connect(a.clusterIP2);
        await connect(a.clusterIP, "client");
        await network.flushConntrack();
        await network.run("local1", ["nft", DROP_TARGET_PORT]);
        await connect(a.clusterIP);
        await network.flushConntrack();
        // It prints ten times a second.
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      };
      const all = await observing(network, ["-o", "json", ...args], work);
      assertEquals(all.code, 0);
      const events: ObservedEvent[] = all.stdout.trim().split("\n").map((line) => JSON.parse(line));
      const short = events.map(({ event, service, client }) =>
        `${event} ${service} ${client.includes(a.pod) ? "pod" : "client"}`
      );
      const count = (text: string) => short.filter((each) => each === text).length;
      assertEquals(
        [
          "new shop/web:tcp pod",
          "end shop/web:tcp pod",
          "no-answer shop/web:tcp pod",
          "refused shop/wrong:tcp pod",
          "new shop/web:tcp client",
          "end shop/web:tcp client",
        ].map(count),
        [2, 1, 1, 1, 1, 1],
        short.join("\n"),
      );
      const ended = events.find(({ event }) => event === "end");
      assertEquals(ended?.endpoint.includes(a.local1), true);
      assertEquals(typeof ended?.seconds, "number");

      await network.run("local1", ["nft", "delete table inet drops"]);
      // Names are read beside the events.
      await observing(network, ["-o", "json", ...args], async (printed) => {
        await eventually("the name of the pod", async () => {
          await connect(a.clusterIP);
          return printed().includes('"pod":"local1"');
        });
      });
      const one = await observing(network, ["shop/web", "--client", a.client, ...args], work);
      assertMatch(
        one.stdout,
        /^\d\d:\d\d:\d\d\.\d{3} NEW +\S+ → shop\/web:tcp \(\S+:80\/tcp\) → \S+:8080 \(local1\)\n/,
      );
      assertMatch(one.stdout, /^\d\d:\d\d:\d\d\.\d{3} END after [\d.]+ \w+ +\S+ → shop\/web:tcp /m);
      assertEquals(one.stdout.trim().split("\n").length, 2, one.stdout);
    });
  }
}

test("it names the pods of endpoints as the API server has them now", async () => {
  const a = ADDRESSES[4];
  await using stage = await Stage.create({ objects: [service(a), slice(a, ["local1"])] });
  await using signpost = await stage.startSynced(stage.socket);
  const flow = { from: "pod", to: a.clusterIP, protocols: ["tcp"] } as const;
  const { stdout } = await observing(
    stage.network,
    ["shop/web", ...stage.socket],
    async (printed) => {
      await stage.flowsBecome(signpost, [{ ...flow, reaches: ["local1"] }]);
      const later = slice(a, ["remote1"]);
      const [endpoint] = later.endpoints as Manifest[];
      const targetRef = { kind: "Pod", name: "\u001b[2Jweb-2" };
      stage.apply({ ...later, endpoints: [{ ...endpoint, targetRef }] });
      await stage.flowsBecome(signpost, [{ ...flow, reaches: ["remote1"] }]);
      await eventually("the name of the new pod", async () => {
        await stage.network.connect({ from: "pod", address: a.clusterIP, port: PORT });
        return printed().includes("web-2)");
      });
    },
  );
  assertMatch(stdout, / NEW .* → 10\.244\.0\.11:8080 \(local1\)$/m);
  assertMatch(stdout, / NEW .* → 10\.244\.1\.11:8080 \(\\u001b\[2Jweb-2\)$/m);
});
