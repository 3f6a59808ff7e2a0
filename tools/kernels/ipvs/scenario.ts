/**
 * The take-over from kube-proxy's ipvs mode, from the state that it leaves to the end of all of it,
 * and the way back.
 *
 * @module
 */
import type { Signpost } from "../../../tests/support/signpost.ts";
import { compareCleanups } from "./cleanups.ts";
import { type Answers, type Findings, isSignposts, tableOf } from "./findings.ts";
import { census, OWN_PORT } from "./probes.ts";
import type { Recording } from "./recording.ts";
import { GRACE, Stage, type StageOptions } from "./stage.ts";
import { findBroken, openLong, Steady } from "./traffic.ts";

/** Milliseconds. */
const DEADLINE = 600_000;
/** How long the machine is tried before the proxy changes, in milliseconds. */
const REST = 15_000;
/** Connections a second at most: a machine by emulation does less. And to what must not answer. */
const RATE = { most: 100, refused: 1 };
/** Milliseconds: a connection that ends so long before the grace time does is lost. */
const SLACK = 5_000;

/** All of it. @param options.keep is given what a real kube-proxy has made */
export async function takeOverFromIpvs(
  options: StageOptions & { readonly keep: (recording: Recording) => Promise<void> },
  findings: Findings,
): Promise<void> {
  const { backend, families } = options;
  await using resources = new AsyncDisposableStack();
  const stage = resources.use(await Stage.create(options));
  const { network } = stage;
  const steady = (kind: "served" | "stale" | "own", rate: number) =>
    resources.use(new Steady(network, { families, kind, rate }));
  const stop = async (what: string, traffic: Steady): Promise<number> => {
    const { text, wrong, rate } = await traffic.stop();
    findings.fact(`${what}: ${text}`);
    findings.problem(...wrong);
    return rate;
  };

  const recording = await stage.recording();
  if (recording) await options.keep(recording);
  const before = await census(network, families);
  findings.fact("who answers:", ...tableOf([before]));
  const atRest = steady("served", RATE.most);
  await sleep(REST);
  // The daemon is to have a part of a slow machine.
  const rate = await stop("connections at rest, kube-proxy's state alone", atRest) / 2;

  const own = steady("own", RATE.refused);
  const served = steady("served", rate);
  const long = await openLong(network, families);
  await stage.stopKubeProxy();
  const daemon = stage.startSignpost();
  await daemon.until("the take-over", () => /open connections live on/.test(daemon.log), DEADLINE);
  const until = performance.now() + GRACE * 1000;
  const stale = steady("stale", RATE.refused);
  const during = await census(network, families);
  findings.judge(during, families, isSignposts);
  const status = await stage.status();
  findings.fact(`signpost status: ${status}`);
  if (status === "") findings.problem("no take-over in signpost status");
  await watch(daemon, { long, until, findings });
  const after = await census(network, families);
  findings.judge(after, families, isSignposts);
  await stop("connections to Services during the take-over", served);
  await stop("connections to what is no more", stale);
  const broken = await findBroken(long);
  findings.fact(`of ${long.length} open connections ${broken.length} ended with the grace time`);
  for (const { connection } of long) connection.close();
  const statusAfter = await stage.status();
  if (statusAfter !== "") findings.problem(`signpost status still says ${statusAfter}`);
  // The guard stays a minute longer, and resets what goes on with a connection that was ended.
  await daemon.until("nothing is left", async () => await stage.left() === "", DEADLINE);

  const started = performance.now();
  const stamp = (what: string) =>
    findings.fact(`after ${Math.round((performance.now() - started) / 100) / 10} s ${what}`);
  const back = steady("served", rate);
  const kept = await openLong(network, families);
  const stopDaemon = async (running: Signpost) => {
    await running.stop();
    stamp("signpost has stopped");
    const lines = running.log.split("\n");
    findings.fact(...lines.filter((line) => /ipvs|took over|WARN|ERROR/.test(line)));
  };
  await stopDaemon(daemon);
  if (backend !== "nftables") {
    // What is left of the rules in iptables would refuse what IPVS is to serve, until the cleanup.
    const last = stage.startSignpost("nftables");
    await last.until("the hand-over", () => /rules of before are removed/.test(last.log), DEADLINE);
    stamp("signpost serves by nftables");
    await stopDaemon(last);
  }
  await stage.startKubeProxy();
  stamp("kube-proxy's state is there again; then signpost cleanup");
  const rest = await stage.cleanUp();
  stamp("signpost cleanup has ended");
  if (rest !== "") findings.problem(`left after cleanup: ${rest}`);
  const carried = await stage.carried();
  const again = await census(network, families);
  findings.fact(`IPVS began ${await stage.carried() - carried} connections in the census after it`);
  sameAs(before, { again, findings });
  await stop("connections to Services on the way back", back);
  await stop(`connections to port ${OWN_PORT} of virtual IPs, all the time`, own);
  const lost = await findBroken(kept);
  findings.fact(`of ${kept.length} open connections ${lost.length} ended on the way back`);
  findings.problem(...lost);
  for (const { connection } of kept) connection.close();
  findings.fact("who answers before, in the grace time, after it, and with kube-proxy again:");
  findings.fact(...tableOf([before, during, after, again]));
  findings.fact(...stage.kubeProxyErrors.map((line) => `kube-proxy: ${line}`));
  if (options.kubeProxy === undefined || recording === undefined) return;
  await compareCleanups({ ...options, kubeProxy: options.kubeProxy, recording }, findings);
}

/** Until all that kube-proxy left is gone: open connections answer all the time. */
async function watch(daemon: Signpost, { long, until, findings }: {
  readonly long: Awaited<ReturnType<typeof openLong>>;
  readonly until: number;
  readonly findings: Findings;
}): Promise<void> {
  let looks = 0;
  const isOver = () => /what it left is removed/.test(daemon.log);
  while (!isOver()) {
    const broken = await findBroken(long);
    // One that ends between the two is the end of the grace time.
    if (broken.length > 0 && !isOver()) {
      if (performance.now() < until - SLACK) findings.problem(...broken);
      await daemon.until("the end of the grace time", isOver, DEADLINE);
      break;
    }
    looks++;
    await sleep(1_000);
  }
  findings.fact(`${long.length} open connections answered ${looks} times in the grace time`);
}

function sameAs(before: Answers, { again, findings }: {
  readonly again: Answers;
  readonly findings: Findings;
}): void {
  for (const [what, answer] of before) {
    if (again.get(what) !== answer) {
      findings.problem(`with kube-proxy again, ${what}: ${again.get(what)}, not ${answer}`);
    }
  }
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
