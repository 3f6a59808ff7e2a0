import { assertEquals, assertMatch } from "@std/assert";
import type { ServiceReport } from "../../lib/explain/report.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { runSignpost } from "../support/signpost.ts";
import { applyOnce, createCluster, writeInput } from "./case.ts";
import {
  ADDRESSES,
  clusterObjects,
  configuration,
  DROP_TARGET_PORT,
  PORT,
  service,
  slice,
  slicePorts,
} from "./cluster.ts";

const test = sideBySide("probe");

const a = ADDRESSES[4];

for (const mode of ["nftables", "iptables"]) {
  test(`explain --probe names endpoints that refuse, drop or are gone, ${mode}`, async () => {
    const input = {
      objects: [
        ...clusterObjects(a),
        service(a),
        slice(a, ["local1", "local2", "remote1"]),
        // No program listens on this port.
        slice(a, ["remote2"], { name: "web-2", ports: slicePorts(7777) }),
      ],
      config: configuration(a, { mode }),
    };
    await using network = await createCluster();
    await applyOnce(network, input);
    await using files = await writeInput(input);
    const sources = ["--config", files.config, "--manifests", files.manifests, "--socket", ""];
    const ask = (...args: string[]) =>
      runSignpost(network, ["explain", "shop/web", ...args, ...sources]);
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
  const input = {
    objects: [...clusterObjects(a), service(a), slice(a, ["local1"])],
    config: configuration(a),
  };
  await using network = await createCluster();
  await network.ip("node", [`route add unreachable ${a.clusterIP}/32`]);
  await using files = await writeInput(input);
  const { code, stdout } = await runSignpost(network, [
    ...["explain", "shop/web", "--probe", "--socket", "", "-o", "json"],
    ...["--config", files.config, "--manifests", files.manifests],
  ]);
  const codes = (JSON.parse(stdout) as ServiceReport).findings.map((each) => each.code);
  assertEquals([code, codes], [1, ["no-rules", "frontend-unreachable"]]);
});

for (const mode of ["nftables", "iptables"]) {
  test(`explain counts open and unanswered connections of each endpoint, ${mode}`, async () => {
    const input = {
      objects: [...clusterObjects(a), service(a), slice(a, ["local1"])],
      config: configuration(a, { mode }),
    };
    await using network = await createCluster();
    await applyOnce(network, input);
    await using files = await writeInput(input);
    const ask = (...args: string[]) =>
      runSignpost(network, [
        ...["explain", "shop/web", "--socket", "", ...args],
        ...["--config", files.config, "--manifests", files.manifests],
      ]);
    const to = { from: "pod" as const, address: a.clusterIP, port: PORT };
    const open = await network.stay(to);
    const before = await ask();
    assertMatch(before.stdout, /^Service shop\/web works here \(/);
    assertMatch(before.stdout, /^ {2}10\.244\.0\.11:8080 +node1 +Cluster +1 +0$/m);

    await network.run("local1", ["nft", DROP_TARGET_PORT]);
    await network.connect({ ...to, protocol: "tcp", times: 3 });
    // Until then, the answers may be under way.
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    const { code, stdout } = await ask();
    assertEquals(code, 0);
    assertMatch(stdout, /^Service shop\/web works here, but connections got no answer \(/);
    assertMatch(stdout, /^ {2}10\.244\.0\.11:8080 +node1 +Cluster +1 +3$/m);
    assertMatch(
      stdout,
      /^warning 3 connections to 10\.244\.0\.11:8080 in the last \d+ (?:minutes?|s) got no answer: its pod/m,
    );
    open.close();
  });
}
