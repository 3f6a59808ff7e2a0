import { assertEquals } from "@std/assert";
import { openSource } from "../../../lib/daemon/objects/source.ts";
import { world } from "../../cli/runtime.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";

const KUBECONFIG = JSON.stringify({
  "current-context": "test",
  clusters: [{
    name: "test",
    cluster: { server: "https://192.0.2.1:6443", "insecure-skip-tls-verify": true },
  }],
  contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
  users: [{ name: "test", user: { token: "s3cret" } }],
});

Deno.test("a server that cannot be verified comes with a warning, which holds no secret", async () => {
  const { runtime } = world();
  const logger = new MemoryLogger();
  const { api } = await openSource({
    configuration: configuration({
      clientConnection: { ...DEFAULTS.clientConnection, kubeconfig: "/kubeconfig" },
    }),
    nodeName: "node-1",
    runtime: { ...runtime, readRegularFile: () => Promise.resolve(KUBECONFIG) },
    logger,
    signal: new AbortController().signal,
  });
  api?.close();
  assertEquals(api?.warnings.length, 1);
  assertEquals(api?.warnings[0]?.startsWith("insecure-skip-tls-verify is set"), true);
  assertEquals(api?.warnings[0]?.includes("s3cret"), false);
  assertEquals(logger.lines, []);
});
