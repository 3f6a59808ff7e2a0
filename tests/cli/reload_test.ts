import { assertEquals } from "@std/assert";
import { ConfigurationFile } from "../../lib/cli/configuration_file.ts";
import { Reload } from "../../lib/cli/reload.ts";
import { loadConfiguration } from "../../lib/config/load.ts";
import type { Configuration } from "../../lib/model/configuration.ts";
import { VERSION_TEXT } from "../../lib/model/version.ts";
import { world } from "./runtime.ts";

const KUBECONFIG = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "c", cluster: { server: "https://192.0.2.1:6443" } }],
  contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  users: [{ name: "u", user: { token: "t" } }],
  "current-context": "c",
});

const withKubeconfig = (path: string) =>
  JSON.stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    clientConnection: { kubeconfig: path },
  });

/** The reloads of a daemon with the kubeconfig `/running`; that of `/slow` cannot be read before `found`. */
async function setUp() {
  const slow = { asked: Promise.withResolvers<void>(), found: Promise.withResolvers<string>() };
  const contents = { text: withKubeconfig("/running") };
  const file = new ConfigurationFile(() => Promise.resolve(contents.text));
  const { runtime, logger } = world({
    readFile: (path) => {
      if (path !== "/slow") return Promise.resolve(KUBECONFIG);
      slow.asked.resolve();
      return slow.found.promise;
    },
  });
  const argv = ["--config=/config.yaml"];
  const running = await loadConfiguration(argv, { readFile: file.read, version: VERSION_TEXT });
  if (running.type !== "run") throw new Error("the configuration is no good");
  const taken: string[] = [];
  const reload = new Reload({
    argv,
    file,
    configuration: running.configuration,
    runtime,
    logger,
    manager: { reloading: () => Promise.resolve(), reloaded: () => Promise.resolve() },
    take: ({ clientConnection }: Configuration) => taken.push(clientConnection.kubeconfig),
    signal: new AbortController().signal,
  });
  const readAgain = (kubeconfig: string) => {
    contents.text = withKubeconfig(kubeconfig);
    return reload.readAgain();
  };
  return { readAgain, slow, taken };
}

Deno.test("a reload that takes longer than the next one is not taken over after it", async () => {
  const { readAgain, slow, taken } = await setUp();
  const first = readAgain("/slow");
  await slow.asked.promise;
  await readAgain("/quick");
  slow.found.resolve(KUBECONFIG);
  await first;
  assertEquals(taken, ["/quick"]);
});

Deno.test("what is reloaded while another configuration is taken over is compared with that one", async () => {
  const { readAgain, taken } = await setUp();
  await readAgain("/quick");
  await readAgain("/quick");
  await readAgain("/running");
  assertEquals(taken, ["/quick", "/running"]);
});
