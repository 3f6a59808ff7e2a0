import { assertRejects } from "@std/assert";
import { openServiceManager } from "../../lib/daemon/reports/service_manager.ts";
import { runDaemon } from "../../lib/daemon/daemon.ts";
import { HealthCheckNodePorts } from "../../lib/healthcheck/node_ports.ts";
import { LocalhostListeners } from "../../lib/localhost/listeners.ts";
import { httpListen } from "../../lib/system/http_servers.ts";
import { tcp } from "../../lib/system/tcp.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import { world } from "../cli/runtime.ts";
import { DEFAULTS } from "../support/configuration.ts";

const KUBECONFIG = `
clusters: [{ name: a, cluster: { server: "https://192.0.2.1" } }]
contexts: [{ name: a, context: { cluster: a } }]
current-context: a
`;

Deno.test("nft's version and the kubeconfig are read while the kernel checks the rules", async () => {
  const versionAsked = Promise.withResolvers<void>();
  const kubeconfigRead = Promise.withResolvers<void>();
  const { runtime, logger } = world({
    lock: { take: () => true, holder: () => Promise.resolve(undefined) },
    readRegularFile: () => {
      kubeconfigRead.resolve();
      return Promise.resolve(KUBECONFIG);
    },
    runner: {
      run: async (argv) => {
        if (argv.includes("--version")) {
          versionAsked.resolve();
          return { code: 0, stdout: "nftables v1.0.6 (x)", stderr: "" };
        }
        await Promise.all([versionAsked.promise, kubeconfigRead.promise]);
        return { code: 1, stdout: "", stderr: "Error: Operation not permitted" };
      },
    },
  });
  const configuration = {
    ...DEFAULTS,
    clientConnection: { ...DEFAULTS.clientConnection, kubeconfig: "/etc/kubeconfig" },
  };
  const running = runDaemon({
    configuration,
    commandLine: { argv: [], workingDirectory: "/", file: null },
    nodeName: "node-1",
    runtime,
    logger,
    recentLog: [],
    manager: openServiceManager({ notifySocket: undefined, watchdog: undefined }, {
      runtime,
      logger,
    }),
    localhost: new LocalhostListeners({ tcp: tcp(), clock: runtime.clock }),
    healthChecks: new HealthCheckNodePorts({
      listen: httpListen({ clock: runtime.clock, logger }),
      clock: runtime.clock,
    }),
    servers: { keep: httpListen({ clock: runtime.clock, logger }) },
    signal: new AbortController().signal,
    processSignal: new AbortController().signal,
  });
  await assertRejects(() => running, FatalError, "CAP_NET_ADMIN");
});
