import { assertEquals, assertMatch } from "@std/assert";
import { IPVS_SCHEDULERS } from "../../lib/config/ipvs.ts";
import { configurationOf, errorsOf, FILE, load, loadFile, runOf } from "./support.ts";

Deno.test("mode ipvs is nftables with the settings that kube-proxy's ipvs mode reads", async () => {
  const { configuration } = runOf(
    await loadFile(`
mode: ipvs
iptables: {masqueradeAll: true, masqueradeBit: 17, syncPeriod: 7s, minSyncPeriod: 3s}
nftables: {masqueradeBit: 18, syncPeriod: 9s}
ipvs: {syncPeriod: 1m, minSyncPeriod: 2s, tcpFinTimeout: 40s}
`),
  );
  assertEquals(configuration.mode, "nftables");
  assertEquals(configuration.nftables, {
    masqueradeAll: true,
    masqueradeBit: 17,
    syncPeriod: 60_000,
    minSyncPeriod: 2_000,
  });
  assertEquals(configuration.nodePortAddresses, ["all"]);
  assertEquals(configuration.conntrack.tcpFinWaitTimeout, 40_000);
});

Deno.test("mode ipvs: connection tracking takes the timeouts of IPVS", async () => {
  const timeouts = "ipvs: {tcpTimeout: 15m, udpTimeout: 5m}\n";
  const of = async (yaml: string) => {
    const { conntrack } = runOf(await loadFile(yaml)).configuration;
    return [conntrack.tcpEstablishedTimeout, conntrack.udpTimeout, conntrack.udpStreamTimeout];
  };
  assertEquals(await of(`mode: ipvs\n${timeouts}`), [900_000, 300_000, 300_000]);
  assertEquals(await of("mode: ipvs"), [86_400_000, 0, 0]);
  assertEquals(await of(timeouts), [86_400_000, 0, 0]);
  assertEquals(
    await of(`mode: ipvs\n${timeouts}conntrack: {tcpEstablishedTimeout: 2h, udpTimeout: 10s}`),
    [7_200_000, 10_000, 300_000],
  );
  const kubeadm = "conntrack: {tcpEstablishedTimeout: 0s, udpTimeout: 0s, udpStreamTimeout: 0s}\n";
  assertEquals(await of(`mode: ipvs\n${timeouts}${kubeadm}`), [900_000, 300_000, 300_000]);
  assertEquals(await of(`mode: ipvs\n${kubeadm}`), [0, 0, 0]);
});

Deno.test("ipvs.scheduler keeps its meaning as far as rules can", async () => {
  const seen: string[] = [];
  for (const name of ["", ...IPVS_SCHEDULERS]) {
    const { configuration, warnings } = runOf(
      await load(["--proxy-mode=ipvs", `--ipvs-scheduler=${name}`]),
    );
    const { scheduler, hash } = configuration.signpost;
    const [first = "", second = "", ...rest] = warnings;
    assertEquals(rest, []);
    assertEquals(first, "--proxy-mode: ipvs is served by nftables rules, see docs/ipvs.md");
    const how = scheduler === "consistent-hash" ? `${scheduler} of the ${hash}` : scheduler;
    if (second !== "") assertMatch(second, new RegExp(`^--ipvs-scheduler: ${name} is not kept: `));
    seen.push(`${name || "empty"}: ${how}${second === "" ? "" : ", differs"}`);
  }
  assertEquals(seen, [
    "empty: round-robin",
    "rr: round-robin",
    "wrr: round-robin",
    "sh: consistent-hash of the source",
    "mh: consistent-hash of the source-and-port",
    "dh: consistent-hash of the source, differs",
    "lc: random, differs",
    "wlc: random, differs",
    "lblc: random, differs",
    "lblcr: random, differs",
    "sed: random, differs",
    "nq: random, differs",
    "fo: random, differs",
    "ovf: random, differs",
    "twos: random, differs",
  ]);
});

Deno.test("signpost's own scheduler wins over that of IPVS, which only ipvs mode reads", async () => {
  const own = runOf(
    await loadFile("mode: ipvs\nipvs: {scheduler: wlc}\nsignpost: {scheduler: consistent-hash}"),
  );
  assertEquals(own.configuration.signpost.scheduler, "consistent-hash");
  assertEquals(own.warnings, [`${FILE}: mode: ipvs is served by nftables rules, see docs/ipvs.md`]);
  const other = runOf(await loadFile("mode: nftables\nipvs: {scheduler: rr}"));
  assertEquals(other.configuration.signpost.scheduler, "random");
  assertEquals(other.warnings, [`without effect in signpost: ${FILE}: ipvs.scheduler`]);
});

Deno.test("mode ipvs: what has no effect is named in one warning", async () => {
  const { warnings } = runOf(
    await loadFile(
      "mode: ipvs\nipvs: {strictARP: true, excludeCIDRs: [10.0.0.0/8], syncPeriod: 10s, udpTimeout: 1s}\n" +
        "enableProfiling: true",
    ),
  );
  assertEquals(warnings.slice(1), [
    `without effect in signpost: ${FILE}: ipvs.strictARP, ${FILE}: enableProfiling`,
  ]);
});

/** The ipvs section of a file, and what is wrong in ipvs mode; kube-proxy refuses the same. */
const WRONG: readonly (readonly [string, string])[] = [
  ["{syncPeriod: -5s}", "ipvs.syncPeriod: must not be negative"],
  ["{minSyncPeriod: -1s}", "ipvs.minSyncPeriod: must not be negative"],
  ["{syncPeriod: 5s, minSyncPeriod: 6s}", "ipvs.minSyncPeriod: must not be longer than"],
  ["{tcpTimeout: -1s}", "ipvs.tcpTimeout: must not be negative"],
  ["{tcpFinTimeout: -1s}", "ipvs.tcpFinTimeout: must not be negative"],
  ["{udpTimeout: -1s}", "ipvs.udpTimeout: must not be negative"],
  ["{excludeCIDRs: [10.0.0.0]}", "ipvs.excludeCIDRs[0]: must be a CIDR"],
  ["{scheduler: some}", "ipvs.scheduler: must be one of rr, wrr, sh, mh, dh, lc,"],
];

for (const [section, error] of WRONG) {
  Deno.test(`mode ipvs refuses ipvs: ${section}, other modes do not`, async () => {
    const errors = errorsOf(await loadFile(`mode: ipvs\nipvs: ${section}`));
    assertEquals(errors.length, 1, errors.join());
    assertEquals(errors[0]?.startsWith(`${FILE}: ${error}`), true, errors[0]);
    runOf(await loadFile(`mode: iptables\nipvs: ${section}`));
  });
}

Deno.test("other modes leave out bad excluded CIDRs with a warning", async () => {
  const fromFile = runOf(
    await loadFile("mode: nftables\nipvs: {excludeCIDRs: [10.0.0.1/8, x, null, 'fd00::/8']}"),
  );
  const fromFlags = runOf(await load(["--ipvs-exclude-cidrs=10.0.0.1/8,x,fd00::/8"]));
  for (const { configuration } of [fromFile, fromFlags]) {
    assertEquals(configuration.ipvs.excludeCIDRs, ["10.0.0.0/8", "fd00::/8"]);
  }
  assertEquals(fromFile.warnings, [`${FILE}: ipvs.excludeCIDRs[1]: must be a CIDR, is "x"`]);
  assertEquals(fromFlags.warnings, [`--ipvs-exclude-cidrs: must be a CIDR, is "x"`]);
});

Deno.test("mode ipvs: the min sync period is adaptive by default", async () => {
  const { nftables } = runOf(await loadFile("mode: ipvs\nipvs: {syncPeriod: 500ms}")).configuration;
  assertEquals([nftables.syncPeriod, nftables.minSyncPeriod], [500, "adaptive"]);
});

for (const flag of ["--ipvs-tcp-timeout=x", "--ipvs-exclude-cidrs=x", "--ipvs-strict-arp=please"]) {
  Deno.test(`${flag} is an error`, async () => {
    assertEquals(errorsOf(await load(["--proxy-mode=ipvs", flag])).length, 1);
  });
}

Deno.test("the schedulers' own settings are read from flags and file", async () => {
  const fromFile = configurationOf(
    await loadFile(
      "signpost: {scheduler: consistent-hash, hash: source-and-port, hashTableSize: 1021}",
    ),
  ).signpost;
  const flags = ["--scheduler=consistent-hash", "--scheduler-hash=source-and-port"];
  const fromFlags = configurationOf(await load([...flags, "--hash-table-size=1021"])).signpost;
  assertEquals(fromFlags, fromFile);
  const { scheduler, hash, hashTableSize } = fromFlags;
  assertEquals([scheduler, hash, hashTableSize], ["consistent-hash", "source-and-port", 1021]);
  for (
    const flag of [
      "--scheduler=rr",
      "--scheduler-hash=port",
      "--hash-table-size=250",
      "--hash-table-size=1",
      "--hash-table-size=65537",
    ]
  ) {
    assertEquals(errorsOf(await load([flag])).length, 1, flag);
  }
});
