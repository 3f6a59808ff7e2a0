import { assertEquals, assertMatch } from "@std/assert";
import type { ServiceReport } from "../../lib/explain/report.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { FileStage } from "./case.ts";
import { ADDRESSES, DROP_TARGET_PORT, service, slice, slicePorts } from "./cluster.ts";

const test = sideBySide("probe");

const a = ADDRESSES[4];

for (const mode of ["nftables", "iptables"]) {
  test(`explain --probe names endpoints that refuse, drop or are gone, ${mode}`, async () => {
    await using stage = await FileStage.createWithRules({
      a,
      objects: [
        service(a),
        slice(a, ["local1", "local2", "remote1"]),
        // No program listens on this port.
        slice(a, ["remote2"], { name: "web-2", ports: slicePorts(7777) }),
      ],
      config: { mode },
    });
    const { network } = stage;
    const ask = (...args: string[]) => stage.run("explain", "shop/web", ...args);
    const unasked: ServiceReport = JSON.parse((await ask("-o", "json")).stdout);
    assertEquals(unasked.probe, null);

    await network.run("local2", ["nft", DROP_TARGET_PORT]);
    await network.ip("remote1", ["address flush dev eth0"]);
    const { code, stdout } = await ask("--probe");
    assertEquals(code, 0);
    assertMatch(
      stdout,
      /^Service shop\/web works here for 1 of 4 endpoints: 10\.\S+:\d+ \(no answer in 1 s\) and 2 more/,
    );
    assertMatch(stdout, /^ {2}10\.244\.0\.11:8080 +endpoint +open [\d.]+ ms$/m);
    assertMatch(stdout, /^ {2}10\.244\.0\.12:8080 +endpoint +no answer in 1 s$/m);
    assertMatch(stdout, /^ {2}10\.244\.1\.11:8080 +endpoint +no answer in 1 s$/m);
    assertMatch(stdout, /^ {2}10\.244\.2\.11:7777 +endpoint +refused: nothing listens on 7777/m);
    assertMatch(stdout, /^ {2}10\.96\.0\.10:80 +clusterIP +/m);
    assertMatch(stdout, /^ {2}udp was not probed$/m);
    assertMatch(stdout, /^Probe from node node1: /m);

    await network.run("local1", ["nft", DROP_TARGET_PORT]);
    const all = await ask("--probe", "-o", "json");
    const report: ServiceReport = JSON.parse(all.stdout);
    assertEquals([all.code, report.verdict], [1, "broken"]);
    assertMatch(report.summary, /^works here for 0 of 4 endpoints: /);
  });
}

test("explain --probe names a frontend whose rules are gone", async () => {
  await using stage = await FileStage.create({ a, objects: [service(a), slice(a, ["local1"])] });
  await stage.network.ip("node", [`route add unreachable ${a.clusterIP}/32`]);
  const { code, stdout } = await stage.run("explain", "shop/web", "--probe", "-o", "json");
  const codes = (JSON.parse(stdout) as ServiceReport).findings.map((each) => each.code);
  assertEquals([code, codes], [1, ["no-rules", "frontend-unreachable"]]);
});
