/** `signpost migrate`: on a node with rules of kube-proxy, what changes for each Service. */
import { assertEquals, assertMatch } from "@std/assert";
import { sideBySide } from "../support/side_by_side.ts";
import { FileStage } from "./case.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";

const test = sideBySide("signpost migrate");

const a = ADDRESSES[4];

/** The chains that a kube-proxy of iptables mode has. */
const IPTABLES = `*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
`;

/** A firewall that drops what is forwarded. */
const FIREWALL = `table inet hostfw {
  chain forward { type filter hook forward priority 0; policy drop; }
}
`;

const OBJECTS = [
  service(a, { spec: { type: "NodePort" } }),
  slice(a, ["local1"]),
  service(a, { name: "inner", spec: { clusterIP: a.clusterIP2 } }),
  slice(a, ["local2"], { service: "inner" }),
];

test("migrate names the node ports that fewer addresses answer", async () => {
  await using stage = await FileStage.create({ a, objects: OBJECTS, config: { mode: "" } });
  const { network } = stage;
  const before = await stage.run("migrate");
  assertEquals(before.code, 0, before.stdout + before.stderr);
  assertMatch(before.stdout, /^node1: kube-proxy has no rules here, signpost would use nftables\n/);

  await network.run("node", ["iptables-nft-restore", "--noflush"], { stdin: IPTABLES });
  const { code, stdout } = await stage.run("migrate");
  assertEquals(code, 1);
  assertMatch(stdout, /^node1: kube-proxy in iptables mode, signpost would use nftables\n/);
  assertMatch(
    stdout,
    /^shop\/web\n {2}node port 30080\/tcp does not answer on 127\.0\.0\.1, (?:\S+, )?192\.168\.1\.2 any more; nodePortAddresses: \[all, localhost\] keeps it$/m,
  );
  assertMatch(stdout, /^2 Services: 1 unchanged, 1 would change$/m);
  assertMatch(
    stdout,
    /^To switch, type: systemctl disable --now kube-proxy && systemctl enable --now signpost$/m,
  );

  await network.run("node", ["nft", FIREWALL]);
  assertMatch((await stage.run("migrate")).stdout, /table inet hostfw drops connections/);
});

test("with kube-proxy's own node-port addresses nothing changes", async () => {
  await using stage = await FileStage.create({ a, objects: OBJECTS, config: { mode: "iptables" } });
  await stage.network.run("node", ["iptables-nft-restore", "--noflush"], { stdin: IPTABLES });
  const { code, stdout } = await stage.run("migrate");
  assertEquals(code, 0, stdout);
  assertMatch(stdout, /^2 Services: 2 unchanged, 0 would change$/m);
});
