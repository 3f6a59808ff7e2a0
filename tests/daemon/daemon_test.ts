import { assertRejects } from "@std/assert";
import { runDaemon } from "../../lib/daemon/daemon.ts";
import { FatalError } from "../../lib/model/values/errors.ts";
import { world } from "../cli/runtime.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { daemonOptions } from "./parts.ts";

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
  const running = runDaemon(daemonOptions({ configuration, runtime, logger }));
  await assertRejects(() => running, FatalError, "CAP_NET_ADMIN");
});
