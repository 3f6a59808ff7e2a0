/**
 * `deno task picture`: writes `docs/status-page.png` and `docs/status-page-dark.png`: the top of the status page of a
 * daemon that serves `examples/`.
 *
 * The daemon, its pods and the browser are in network namespaces; connections are real. Needs root.
 *
 * @module
 */
import { screenshot } from "../tests/support/browser.ts";
import { httpGet } from "../tests/support/http.ts";
import { Network } from "../tests/support/network.ts";
import { Signpost } from "../tests/support/signpost.ts";
import { NODE } from "../tests/support/topology.ts";
import { DAEMON_FLAGS, EXAMPLES, FLAGS, readExamples, serveAll } from "./demo/cluster.ts";
import { installPrograms } from "./programs.ts";
import { complain } from "./terminal.ts";

const PICTURES = [
  { path: new URL("../docs/status-page.png", import.meta.url), dark: false },
  { path: new URL("../docs/status-page-dark.png", import.meta.url), dark: true },
];

/** A firewall that forgets Services, as on many nodes: the page has a problem to show. */
const FIREWALL = `table inet firewall {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ip saddr 10.244.0.0/16 accept
  }
}`;

/** Takes the picture. @returns the exit code */
async function main(): Promise<number> {
  const problem = await installPrograms(["nft", "ip", "conntrack", "chromium"]);
  if (problem !== undefined) {
    complain(`The picture cannot be taken: ${problem}.`);
    return 1;
  }
  const { topology, servers } = await readExamples();
  await using network = await Network.create(topology);
  serveAll(network, servers);
  await network.applyNft(FIREWALL);
  const args = [...FLAGS, ...DAEMON_FLAGS, "--status-page=on", "--manifests", EXAMPLES];
  await using daemon = Signpost.start(network, args);
  await daemon.until("the warning, and connections to shop/web", async () => {
    await network.connect({ from: "pod", address: "10.96.0.10", port: 80, times: 30 });
    const { body } = await httpGet(network, {
      from: NODE,
      source: "127.0.0.1",
      address: "127.0.0.1",
      port: 10249,
      path: "/page.json?q=shop/web",
    });
    return /1 warning/.test(body) && /[1-9]\d+\/s/.test(body);
  });
  for (const { path, dark } of PICTURES) {
    const picture = await screenshot("http://127.0.0.1:10249/?q=shop&sort=connections", {
      namespace: network.namespaceOf(NODE),
      // The warning and the state: the rest is below.
      size: { width: 1280, height: 430 },
      time: 12_000,
      dark,
    });
    await Deno.writeFile(path, picture);
  }
  return 0;
}

if (import.meta.main) Deno.exit(await main());
