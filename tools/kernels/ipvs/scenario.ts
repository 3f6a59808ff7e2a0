/**
 * The take-over from kube-proxy's ipvs mode, from the state that it leaves to the end of all of it.
 *
 * @module
 */
import type { Family } from "../../../lib/model/values/address.ts";
import { createCluster, writeInput } from "../../../tests/e2e/case.ts";
import { ADDRESSES, configuration } from "../../../tests/e2e/cluster.ts";
import { run } from "../../../tests/support/command.ts";
import type { Network } from "../../../tests/support/network.ts";
import { runSignpost, Signpost } from "../../../tests/support/signpost.ts";
import { NODE } from "../../../tests/support/topology.ts";
import type { Backend } from "../steps.ts";
import { leaveIpvs } from "./kube_proxy.ts";
import { liveObjects } from "./objects.ts";
import { census, OWN_PORT, targetsOf } from "./probes.ts";
import { attempts, findBroken, openLong, Steady } from "./traffic.ts";

/** Seconds that open connections have. */
const GRACE = 60;
/** Milliseconds. */
const DEADLINE = 600_000;
/**
 * Connections a second: by emulation, a tenth or so of what the machine can do at rest. Those that must be answered, and those that must not.
 */
const RATE = { served: 5, refused: 1 };

const RESTORE: Readonly<Record<Backend, Readonly<Record<Family, string>>>> = {
  nftables: { 4: "iptables-nft-restore", 6: "ip6tables-nft-restore" },
  iptables: { 4: "iptables-nft-restore", 6: "ip6tables-nft-restore" },
  "iptables-legacy": { 4: "iptables-legacy-restore", 6: "ip6tables-legacy-restore" },
};

/** What is to be gone at the end, and prints nothing then. */
const LEFT = `ip -o link show kube-ipvs0 2>/dev/null
grep -E '^(TCP|UDP|SCTP)' /proc/net/ip_vs
ipset list -n | grep ^KUBE
for save in iptables-nft-save ip6tables-nft-save iptables-legacy-save ip6tables-legacy-save; do
  $save 2>/dev/null | grep -E -- '-(IPVS|NODE-PORT|LOAD-BALANCER)'
done
nft list tables | grep ipvs
true`;

/** The report: rows of who answers, and facts, as lines. */
export async function takeOverFromIpvs(
  backend: Backend,
  families: readonly Family[],
): Promise<string> {
  await using resources = new AsyncDisposableStack();
  const network = resources.use(await createCluster());
  network.serve(NODE, { protocol: "tcp", port: OWN_PORT, address: "::" });
  if (backend === "iptables-legacy") {
    await network.run(NODE, ["iptables-legacy", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
  }
  await leaveIpvs(network, families, RESTORE[backend]);
  const before = await census(network, families);
  const long = await openLong(network, families);
  const [never, served] = [
    new Steady(network, {
      attempts: attempts(families, {
        select: ({ port }) => port === OWN_PORT,
        protocols: ["tcp"],
      }),
      rate: RATE.refused,
      isRight: isNoAnswer,
    }),
    new Steady(network, {
      attempts: attempts(families, {
        select: ({ isServed }) => isServed,
        protocols: ["tcp", "udp"],
      }),
      rate: RATE.served,
      isRight: (word) => word === "endpoint",
    }),
  ];
  resources.use(never);
  resources.use(served);
  await new Promise((resolve) => setTimeout(resolve, 5_000));

  const daemon = resources.use(await startDaemon(network, backend, resources));
  await daemon.until("the take-over", () => /open connections live on/.test(daemon.log), DEADLINE);
  const stale = resources.use(
    new Steady(network, {
      attempts: attempts(families, {
        select: ({ isServed, port }) => !isServed && port !== OWN_PORT,
        protocols: ["tcp", "udp"],
      }),
      rate: RATE.refused,
      isRight: isNoAnswer,
    }),
  );
  const during = await census(network, families);
  const status = await statusOf(network);
  let looks = 0;
  const isOver = () => /what it left is removed/.test(daemon.log);
  while (!isOver()) {
    const broken = await findBroken(long);
    // One that ends between the two is the end of the grace time.
    if (broken.length > 0 && !isOver()) {
      await daemon.until(`the end of the grace time (${broken.join("; ")})`, isOver, 60_000);
      if (looks < 3) throw new Error(`broken within the grace time: ${broken.join("; ")}`);
      break;
    }
    looks++;
    await new Promise((resolve) => setTimeout(resolve, 2_000));
  }
  const after = await census(network, families);
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const [servedEnd, staleEnd, neverEnd] = [
    await served.stop(),
    await stale.stop(),
    await never.stop(),
  ];
  const left = (await network.run(NODE, ["sh", "-c", LEFT])).trim();
  const broken = await findBroken(long);
  for (const { connection } of long) connection.close();
  const statusAfter = await statusOf(network);
  const problems = [
    ...[...servedEnd.wrong, ...staleEnd.wrong, ...neverEnd.wrong],
    ...left === "" ? [] : [`left: ${left}`],
    ...wrongRows(during, families),
    ...wrongRows(after, families),
    ...status === "" ? ["no take-over in signpost status"] : [],
    ...statusAfter === "" ? [] : [`signpost status still says ${statusAfter}`],
  ];
  const report = [
    ...[...before].map(([what, word]) =>
      `| ${what} | ${word} | ${during.get(what)} | ${after.get(what)} |`
    ),
    `new connections to Services: ${servedEnd.text}, ${servedEnd.wrong.length} kinds went wrong`,
    `to what must not answer: ${staleEnd.text}; to port ${OWN_PORT} of virtual IPs: ${neverEnd.text}`,
    `${long.length} open connections answered ${looks} times in the grace time; after it ${broken.length} do not`,
    `signpost status: ${status}`,
    ...daemon.log.split("\n").filter((line) => /ipvs|WARN|ERROR/.test(line)),
  ].join("\n");
  if (problems.length > 0) throw new Error(`${problems.join("\n")}\n${report}`);
  return report;
}

async function startDaemon(
  network: Network,
  backend: Backend,
  resources: AsyncDisposableStack,
): Promise<Signpost> {
  const mode = backend === "nftables" ? "nftables" : "iptables";
  const periods = { minSyncPeriod: "50ms", syncPeriod: "5s" };
  const config = configuration(ADDRESSES[4], { mode, nftables: periods, iptables: periods });
  const input = resources.use(await writeInput({ objects: liveObjects(), config }));
  await run(["mkdir", "-p", "/run/signpost"]);
  return Signpost.start(network, [
    ...["--config", input.config, "--manifests", input.manifests, "--state-file="],
    ...["--socket", SOCKET, "--ipvs-grace-period", `${GRACE}s`, "-v2"],
  ]);
}

const SOCKET = "/run/signpost/ipvs.sock";

/** What `signpost status` says of the take-over; `""`: nothing. */
async function statusOf(network: Network): Promise<string> {
  const { stdout } = await runSignpost(network, ["status", "--socket", SOCKET]);
  return /^ *take-over +(.*)$/m.exec(stdout)?.[1] ?? "";
}

function wrongRows(rows: ReadonlyMap<string, string>, families: readonly Family[]): string[] {
  return families.flatMap((family) =>
    targetsOf(family).flatMap(({ what, isServed }) => {
      const word = rows.get(`IPv${family} ${what}`);
      const isRight = isServed ? word === "endpoint" : isNoAnswer(word ?? "");
      return isRight ? [] : [`IPv${family} ${what}: ${word}`];
    })
  );
}

/** Without `kube-ipvs0` an address is elsewhere: the packet leaves (`world`), or a rule drops it. */
function isNoAnswer(word: string): boolean {
  return !/endpoint|node/.test(word);
}
