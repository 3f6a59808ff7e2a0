/**
 * `deno task demo`: signpost at work on `examples/`, in network namespaces of its own.
 *
 * A node, its pods and clients outside are namespaces; connections are real; nothing outside of
 * them is touched. Needs root and the programs nft, ip and conntrack.
 *
 * @module
 */
import { eventually } from "../tests/support/eventually.ts";
import { type ConnectRequest, Network } from "../tests/support/network.ts";
import { runSignpost, Signpost } from "../tests/support/signpost.ts";
import { DAEMON_FLAGS, EXAMPLES, FLAGS, NEWCOMER, readExamples, serveAll } from "./demo/cluster.ts";
import { nameOf, row, shorten, title } from "./demo/page.ts";
import { installPrograms } from "./programs.ts";
import { complain, say } from "./terminal.ts";

/** Runs the demonstration until its end or Ctrl-C. @returns the exit code */
async function main(): Promise<number> {
  const problem = await installPrograms(["nft", "ip", "conntrack"]);
  if (problem !== undefined) {
    complain(`The demonstration cannot run: ${problem}.`);
    return 1;
  }
  const interrupted = Promise.withResolvers<number>();
  const onSignal = () => interrupted.resolve(130);
  for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, onSignal);
  await using cleanUp = new AsyncDisposableStack();
  return await Promise.race([demonstrate(cleanUp), interrupted.promise]);
}

async function demonstrate(cleanUp: AsyncDisposableStack): Promise<number> {
  const { topology, servers, counts } = await readExamples();
  say("signpost: a node, its pods and clients outside, in network namespaces; real connections.");
  const creating = Network.create(topology);
  // Also when Ctrl-C comes while it is being made.
  cleanUp.defer(() => creating.then((made) => made[Symbol.asyncDispose](), () => {}));
  const network = await creating;
  serveAll(network, servers);

  title("$ signpost --once --manifests examples/ ... | nft -f -");
  const once = await runSignpost(network, ["--once", ...FLAGS, "--manifests", EXAMPLES]);
  if (once.code !== 0) throw new Error(`signpost --once failed: ${once.stderr}`);
  await network.applyNft(once.stdout);
  const lines = once.stdout.split("\n").length - 1;
  say(
    `  ${counts.Service} Services, ${counts.EndpointSlice} EndpointSlices: ${lines} lines of nft`,
  );

  title("Who answers:");
  await tryServices(network);

  await followChange(network, cleanUp);

  title("How the kernel does it, for shop/web ($ nft list table inet signpost, shortened):");
  const listing = await network.run("node", ["nft", "list", "table", "inet", "signpost"]);
  for (const line of shorten(listing, SHOWN)) say(`  ${line}`);
  return 0;
}

/** Maps and chains that a packet to shop/web meets, and the lines of them that are about it. */
const SHOWN: ReadonlyMap<string, RegExp> = new Map([
  ["services4", /10\.96\.0\.10 /],
  ["endpoints-tcp4", /10\.96\.0\.10 /],
  ["pick-endpoints4-tcp-3", /dnat/],
  ["cluster4-tcp-3", /./],
  ["services", /services4/],
  ["nat-prerouting", /./],
]);

/** One row of the demonstration. */
type Attempt = Omit<ConnectRequest, "times"> & { readonly what: string; readonly times: number };

const ATTEMPTS: readonly Attempt[] = [
  { what: "ClusterIP", from: "pod", address: "10.96.0.10", port: 80, times: 300 },
  { what: "  over IPv6", from: "pod", address: "fd00:10:96::10", port: 80, times: 300 },
  { what: "  from the node itself", from: "node", address: "10.96.0.10", port: 80, times: 30 },
  { what: "DNS, UDP", from: "pod", protocol: "udp", address: "10.96.0.53", port: 53, times: 100 },
  { what: "DNS, TCP", from: "pod", address: "10.96.0.53", port: 53, times: 100 },
  { what: "Session affinity", from: "pod", address: "10.96.0.20", port: 80, times: 50 },
  { what: "  another client", from: "client", address: "10.96.0.20", port: 80, times: 50 },
  { what: "Node port", from: "client", address: "192.168.0.2", port: 30080, times: 50 },
  { what: "External IP", from: "client", address: "192.0.2.30", port: 80, times: 50 },
  { what: "Load balancer", from: "client", address: "192.0.2.10", port: 443, times: 50 },
  { what: "  not in source ranges", from: "stranger", address: "192.0.2.10", port: 443, times: 3 },
  { what: "  policy Local", from: "client", address: "192.0.2.20", port: 443, times: 50 },
  { what: "Internal policy Local", from: "pod", address: "10.96.0.60", port: 9100, times: 50 },
  { what: "Hints for this zone", from: "pod", address: "10.96.0.80", port: 80, times: 50 },
  { what: "Terminating, serving", from: "pod", address: "10.96.0.90", port: 80, times: 10 },
  { what: "No endpoints", from: "pod", address: "10.96.0.100", port: 80, times: 3 },
  { what: "A port it does not have", from: "pod", address: "10.96.0.10", port: 81, times: 3 },
  { what: "An address of no Service", from: "pod", address: "10.96.0.99", port: 80, times: 3 },
];

async function tryServices(network: Network): Promise<void> {
  for (const { what, ...request } of ATTEMPTS) {
    const outcomes = await network.connect(request);
    const { address, port } = request;
    const to = address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
    row(what, { from: request.from, to, outcomes });
  }
}

/** The daemon follows its manifests: a pod is replaced by another. */
async function followChange(network: Network, cleanUp: AsyncDisposableStack): Promise<void> {
  title("$ signpost --manifests examples/ ...     (the daemon follows a copy of the folder)");
  const folder = await Deno.makeTempDir({ prefix: "signpost-demo-" });
  cleanUp.defer(() => Deno.remove(folder, { recursive: true }));
  const file = `${folder}/cluster-ip.yaml`;
  for await (const { name, isFile } of Deno.readDir(EXAMPLES)) {
    if (isFile) await Deno.copyFile(`${EXAMPLES}${name}`, `${folder}/${name}`);
  }
  const args = [...FLAGS, ...DAEMON_FLAGS, "-v2", "--manifests", folder];
  const daemon = cleanUp.use(Signpost.start(network, args));
  await daemon.waitForLog(/full/);

  const request = { from: "pod", address: "10.96.0.10", port: 80, times: 300 };
  const to = "10.96.0.10:80";
  row("Before", { from: "pod", to, outcomes: await network.connect(request) });
  const open = await network.stay({ from: "pod", address: "10.96.0.10", port: 80 });
  const started = performance.now();
  await writeAtOnce(file, movePod(await Deno.readTextFile(file)));
  say(`  ${NEWCOMER.replaces} is replaced by ${NEWCOMER.name} in cluster-ip.yaml:`);
  await eventually("traffic moves to the new pod", async () => {
    const outcomes = await network.connect({ ...request, times: 30 });
    return !outcomes.some((outcome) => nameOf(outcome) === NEWCOMER.replaces) &&
      outcomes.some((outcome) => nameOf(outcome) === NEWCOMER.name);
  });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  row("After", { from: "pod", to, outcomes: await network.connect(request) });
  const echo = await open.exchange("still there?");
  say(`  It took ${seconds} s, most of it to ask until all answers are new.`);
  say(
    `  A connection that was open to ${open.answer.host} ${
      echo === "still there?" ? "lives on" : "broke"
    }.`,
  );
  open.close();
}

function movePod(text: string): string {
  return NEWCOMER.addresses.reduce(
    (moved, [from, to]) => moved.replaceAll(from, to),
    text.replaceAll(NEWCOMER.replaces, NEWCOMER.name),
  );
}

/** The daemon must not read half a file. */
async function writeAtOnce(path: string, text: string): Promise<void> {
  await Deno.writeTextFile(`${path}.new`, text);
  await Deno.rename(`${path}.new`, path);
}

if (import.meta.main) Deno.exit(await main());
