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

Deno.test("the daemon warns once, at its start, of a server that it cannot verify", async () => {
  const { runtime } = world();
  const logger = new MemoryLogger();
  const { api } = await openSource({
    configuration: configuration({
      clientConnection: { ...DEFAULTS.clientConnection, kubeconfig: "/kubeconfig" },
    }),
    nodeName: "node-1",
    runtime: { ...runtime, readFile: () => Promise.resolve(KUBECONFIG) },
    logger,
    observer: {},
    sink: () => {},
    signal: new AbortController().signal,
  });
  api?.close();
  assertEquals(logger.lines.length, 1);
  assertEquals(logger.lines[0]?.startsWith("warn insecure-skip-tls-verify is set"), true);
  assertEquals(logger.lines[0]?.includes("s3cret"), false);
});
