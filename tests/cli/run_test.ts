/** The daemon inside `signpost run`, with an nft that is made of memory. */
import { assert, assertEquals } from "@std/assert";
import { run } from "../../lib/cli/run.ts";
import { loadConfiguration } from "../../lib/config/load.ts";
import type { ProcessRunner } from "../../lib/model/ports/ports.ts";
import { MemoryLogger, realClock } from "../support/clock_and_log.ts";
import { eventually } from "../support/eventually.ts";
import { FakeNode, KUBE_PROXY_RULES } from "./fake_node.ts";
import { world } from "./runtime.ts";
import { ConfigurationFile } from "../../lib/cli/context.ts";
import { service } from "../support/cluster.ts";

const SERVICE = JSON.stringify(service({ namespace: "shop" }));

/** A daemon whose nft takes scripts when it is let, and whose iptables removes rules when it is let. */
async function start(folder: string, health = "") {
  const node = new FakeNode();
  const [stop, logger] = [new AbortController(), new MemoryLogger()];
  const scripts: { readonly take: () => void }[] = [];
  const runner: ProcessRunner = {
    run: async (argv, stdin) => {
      const [program, option] = argv;
      const isScript = program === "nft" && option === "-f" && typeof stdin !== "string";
      if (isScript || program.endsWith("-restore")) {
        const taken = Promise.withResolvers<void>();
        scripts.push({ take: taken.resolve });
        await taken.promise;
      }
      return await node.runner.run(argv, stdin);
    },
  };
  const { runtime } = world({
    clock: { ...realClock, sleep: (time, signal) => realClock.sleep(Math.min(time, 100), signal) },
    runner,
    streamer: { lines: (_argv, signal) => silence(signal) },
    lock: { take: () => true, holder: () => Promise.resolve(undefined) },
  });
  const contents = { masqueradeAll: false };
  let reads = 0;
  const file = new ConfigurationFile(() => {
    reads++;
    return Promise.resolve(JSON.stringify({
      apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
      kind: "KubeProxyConfiguration",
      mode: "nftables",
      nftables: contents,
    }));
  });
  const argv = [
    "--config=/config.yaml",
    "--state-file=",
    "--socket=",
    `--healthz-bind-address=${health}`,
    "--metrics-bind-address=",
    "--conntrack-max-per-core=0",
    "--oom-score-adj=0",
    "--hostname-override=node",
    `--manifests=${folder}`,
  ];
  const loaded = await loadConfiguration(argv, { readFile: file.read });
  if (loaded.type !== "run") throw new Error(JSON.stringify(loaded));
  let reload = () => {};
  const running = run({
    argv,
    configuration: loaded.configuration,
    logger,
    recentLog: [],
    file,
    runtime,
    signal: stop.signal,
    systemd: { notifySocket: undefined, watchdog: undefined },
    reload: (callback) => reload = callback,
  });
  /** Has it read another configuration. */
  const change = async () => {
    contents.masqueradeAll = true;
    const before = reads;
    reload();
    await eventually("the reading of the configuration", () => reads > before);
    // The manifests are read from disk: gives a daemon that does not wait the time to write.
    await realClock.sleep(50, stop.signal);
  };
  return { node, scripts, stop, running, change };
}

/** The lines of a program that says nothing. */
function silence(signal: AbortSignal): AsyncIterable<string> {
  return new ReadableStream<string>({
    start: (controller) => signal.addEventListener("abort", () => controller.close()),
  });
}

/** A folder with one Service. */
async function manifests() {
  const folder = await Deno.makeTempDir({ prefix: "signpost-run-" });
  await Deno.writeTextFile(`${folder}/service.json`, SERVICE);
  const remove = () => Deno.remove(folder, { recursive: true });
  return { folder, [Symbol.asyncDispose]: remove };
}

Deno.test("the end of the process does not wait for ever for an nft that hangs", async () => {
  await using objects = await manifests();
  const { scripts, stop, running } = await start(objects.folder);
  await eventually("the first script", () => scripts.length === 1);
  stop.abort();
  await running;
  scripts[0]?.take();
});

Deno.test("a reload waits for the transaction under way", async () => {
  await using objects = await manifests();
  const { scripts, stop, running, change } = await start(objects.folder);
  await eventually("the first script", () => scripts.length === 1);
  await change();
  assertEquals(scripts.length, 1);
  scripts[0]?.take();
  await eventually("the script of the new configuration", () => scripts.length === 2);
  stop.abort();
  scripts[1]?.take();
  await running;
  assertEquals(scripts.length, 2);
});

Deno.test("a reload waits for the removal of others' rules that is under way", async () => {
  await using objects = await manifests();
  const { node, scripts, stop, running, change } = await start(objects.folder);
  node.saved.set("iptables-nft-save", KUBE_PROXY_RULES);
  await eventually("the first script", () => scripts.length === 1);
  scripts[0]?.take();
  await eventually("the removal", () => scripts.length === 2);
  await change();
  assertEquals(scripts.length, 2);
  scripts[1]?.take();
  await eventually("the script of the new configuration", () => scripts.length === 3);
  stop.abort();
  scripts[2]?.take();
  await running;
});

Deno.test("the health server answers while a reload waits", async () => {
  await using objects = await manifests();
  const address = `127.0.0.1:${freePort()}`;
  const { scripts, stop, running, change } = await start(objects.folder, address);
  const answers = async () => {
    const answer = await fetch(`http://${address}/livez`);
    await answer.body?.cancel();
    return answer.ok;
  };
  await eventually("the first script", () => scripts.length === 1);
  await change();
  assert(await answers());
  scripts[0]?.take();
  await eventually("the script of the new configuration", () => scripts.length === 2);
  assert(await answers());
  stop.abort();
  scripts[1]?.take();
  await running;
});

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
