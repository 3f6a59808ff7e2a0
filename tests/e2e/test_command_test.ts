/** `signpost test`: real endpoints that answer, refuse or keep silent, and a DNS server. */
import { assertEquals, assertMatch } from "@std/assert";
import { eventually } from "../support/eventually.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { FileStage } from "./case.ts";
import {
  ADDRESSES,
  DROP_TARGET_PORT,
  largeService,
  type Manifest,
  service,
  slice,
  slicePorts,
} from "./cluster.ts";
import { untilInterrupted } from "./observing.ts";
import { wordsOf } from "../support/table.ts";

const test = sideBySide("signpost test");

const a = ADDRESSES[4];

/** The ports of a DNS Service. */
const DNS = ["UDP", "TCP"].map((protocol) => ({
  name: protocol.toLowerCase(),
  protocol,
  port: 53,
  targetPort: 5353,
}));

/** A Service of the namespace kube-system with port 53. */
function dns(): Manifest[] {
  const inSystem = ({ metadata, ...rest }: Manifest) => ({
    ...rest,
    metadata: { ...metadata as Manifest, namespace: "kube-system" },
  });
  return [
    service(a, { name: "kube-dns", spec: { clusterIP: a.clusterIP2, ports: DNS } }),
    slice(a, ["local2"], { service: "kube-dns", ports: slicePorts(5353) }),
  ].map(inSystem);
}

/** Answers queries over UDP with a code, and listens on TCP. */
function serveDns(open: <T>(body: () => T) => T, code: () => number): Disposable {
  const socket = open(() =>
    Deno.listenDatagram({ transport: "udp", hostname: a.local2, port: 5353 })
  );
  const listener = open(() => Deno.listen({ hostname: a.local2, port: 5353 }));
  void (async () => {
    for await (const [query, from] of socket) {
      const answer = Uint8Array.from(query);
      answer[2] = 0x81;
      answer[3] = 0x80 | code();
      await socket.send(answer, from);
    }
  })();
  return {
    [Symbol.dispose]() {
      socket.close();
      listener.close();
    },
  };
}

for (const mode of ["nftables", "iptables"]) {
  test(`it lists only the Services that do not answer, ${mode}`, async () => {
    await using stage = await FileStage.createWithRules({
      a,
      objects: [
        service(a),
        slice(a, ["local1"]),
        ...dns(),
        service(a, { name: "closed", spec: { clusterIP: "10.96.0.100" } }),
      ],
      config: { mode },
    });
    const { network } = stage;
    const ask = (...args: string[]) => stage.run("test", ...args);
    let code = 0;
    using _ = serveDns((body) => network.inside("local2", body), () => code);
    const good = await ask();
    assertEquals(
      good.stdout,
      "3 Services tested from node node1: none fails; 6 of 6 connections open\n" +
        "  1 Service without endpoints\n  udp was not probed\n",
    );
    assertEquals(good.code, 0);

    const closed = await ask("shop/closed");
    assertEquals(closed.code, 1);
    assertMatch(closed.stdout, /^shop\/closed\nerror .* \[no-endpoints-given\]$/m);
    const other = await ask("web", "-n", "kube-system");
    assertEquals([other.code, other.stdout], [2, ""]);
    assertMatch(
      other.stderr,
      /no Service kube-system\/web has a virtual IP. Did you mean shop\/web\?/,
    );

    code = 2;
    await network.run("local1", ["nft", DROP_TARGET_PORT]);
    const bad = await ask();
    assertEquals(bad.code, 1);
    assertMatch(
      bad.stdout,
      /^kube-system\/kube-dns\nwarning works here for 1 of 2 endpoints: 10\.244\.0\.12:5353\/udp \(failed: it answers SERVFAIL to \S+\) \[endpoint-unreachable\]$/m,
    );
    assertMatch(bad.stdout, /^ {2}10\.96\.0\.20:53\/udp +clusterIP +failed: it answers SERVFAIL/m);
    assertMatch(bad.stdout, /^ {2}10\.244\.0\.11:8080 +endpoint +no answer in 1 s$/m);
    assertMatch(
      bad.stdout,
      /^3 Services tested from node node1: 2 fail; 2 of 6 connections open$/m,
    );
    const some = JSON.parse((await ask("-n", "shop", "-o", "json")).stdout);
    assertEquals(
      [some.services, some.failing.length, some.tried, some.open, some.withoutEndpoints],
      [2, 1, 2, 0, ["shop/closed"]],
    );
  });
}

test("an interrupted test shows what it found", async () => {
  await using stage = await FileStage.createWithRules({
    a,
    objects: [
      ...largeService(0),
      // The order is that of names.
      service(a, { name: "a-first", spec: { clusterIP: "10.96.0.100" } }),
      slice(a, ["remote2"], { service: "a-first", ports: slicePorts(7777) }),
    ],
  });
  const { network } = stage;
  await network.run("world", [
    "nft",
    DROP_TARGET_PORT.replace("hook input priority 0", "hook prerouting priority -300"),
  ]);
  const { code, stdout } = await untilInterrupted(network, ["test", ...stage.args], async () => {
    await eventually("connections without an answer", async () => {
      const listed = await network.run("node", wordsOf("conntrack -L -p tcp --state SYN_SENT"));
      return listed.split("\n").length > 60;
    });
  });
  assertEquals(code, 1);
  assertMatch(stdout, /^ {2}10\.244\.2\.11:7777 +endpoint +refused/m);
  assertMatch(stdout, /^ {2}\d+ more connections not tried\n {2}interrupted$/m);
});
