import { assertEquals } from "@std/assert";
import { nextConfiguration } from "../../lib/cli/run.ts";
import { loadConfiguration } from "../../lib/config/load.ts";
import { AutoResetEvent } from "../../lib/model/values/timing.ts";
import { ManualClock, MemoryLogger, settle } from "../support/clock_and_log.ts";
import { ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { world } from "./runtime.ts";
import { ConfigurationFile } from "../../lib/cli/context.ts";

const KUBECONFIG = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "c", cluster: { server: "https://192.0.2.1:6443" } }],
  contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  users: [{ name: "u", user: { token: "t" } }],
  "current-context": "c",
});

const withKubeconfig = (path: string, mode = "") =>
  JSON.stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    clientConnection: { kubeconfig: path },
    mode,
  });

/** A daemon with the kubeconfig `/running`, and time that a test advances. */
async function setUp() {
  const contents = { text: withKubeconfig("/running"), isThere: true, hasIptables: true };
  const file = new ConfigurationFile(() => Promise.resolve(contents.text));
  const [clock, over, log] = [new ManualClock(), new AbortController(), new MemoryLogger()];
  const reported: string[] = [];
  const request = new AutoResetEvent(clock);
  /** The next reading of a kubeconfig finds a SIGHUP in between. */
  let during = () => {};
  const { runtime } = world({
    clock,
    runner: {
      run: ([program]) =>
        program === "nft" || contents.hasIptables
          ? Promise.resolve({ code: 0, stdout: "iptables v1.8.9 (nf_tables)", stderr: "" })
          : Promise.reject(new ProgramMissingError(program)),
    },
    readRegularFile: () => {
      during();
      return contents.isThere
        ? Promise.resolve(KUBECONFIG)
        : Promise.reject(new Error("not there"));
    },
  });
  const argv = ["--config=/config.yaml"];
  const running = await loadConfiguration(argv, { readFile: file.read });
  if (running.type !== "run") throw new Error("the configuration is no good");
  let { configuration } = running;
  const report = (state: string) => Promise.resolve(void reported.push(state));
  /** Waits as the daemon does that runs with what was taken last. */
  const next = async () => {
    const taken = await nextConfiguration({
      argv,
      file,
      configuration,
      runtime,
      logger: log,
      manager: { report },
      request,
      signal: over.signal,
    });
    configuration = taken ?? configuration;
    return taken?.clientConnection.kubeconfig;
  };
  const errors = () => log.at("error").length;
  const set = (action: () => void) => during = action;
  return { contents, clock, over, request, reported, next, errors, during: set };
}

Deno.test("a good configuration ends the wait, on request and when the file has changed", async () => {
  const { contents, clock, request, reported, next } = await setUp();
  const asked = next();
  contents.text = withKubeconfig("/asked");
  request.set();
  assertEquals(await asked, "/asked");
  const changed = next();
  contents.text = withKubeconfig("/changed");
  await clock.advance(1_000);
  await clock.advance(1_000);
  assertEquals(await changed, "/changed");
  assertEquals(reported, ["RELOADING", "RELOADING"]);
});

Deno.test("a bad configuration does not end the wait", async () => {
  const { contents, over, request, reported, next, errors } = await setUp();
  const waiting = next();
  contents.text = "{";
  request.set();
  await settle();
  assertEquals([reported, errors()], [["RELOADING", "READY"], 1]);
  over.abort();
  assertEquals(await waiting, undefined);
});

/** Tests that a configuration is refused once, and used when what it needs is there. */
const REFUSED = [
  ["a configuration without its kubeconfig is refused once", "isThere", undefined],
  ["a mode whose programs are missing is refused until they are there", "hasIptables", "iptables"],
] as const;

for (const [name, need, mode] of REFUSED) {
  Deno.test(name, async () => {
    const { contents, clock, request, next, errors } = await setUp();
    const waiting = next();
    contents.text = withKubeconfig("/late", mode);
    contents[need] = false;
    request.set();
    for (let i = 0; i < 12; i++) await clock.advance(1_000);
    assertEquals(errors(), 1);
    contents[need] = true;
    for (let i = 0; i < 6; i++) await clock.advance(1_000);
    assertEquals(await waiting, "/late");
  });
}

Deno.test("a refused configuration is forgotten when the file is as it was", async () => {
  const { contents, clock, over, request, next } = await setUp();
  const waiting = next();
  contents.text = withKubeconfig("/late");
  contents.isThere = false;
  request.set();
  await settle();
  contents.text = withKubeconfig("/running");
  request.set();
  await settle();
  contents.isThere = true;
  for (let i = 0; i < 6; i++) await clock.advance(1_000);
  over.abort();
  assertEquals(await waiting, undefined);
});

Deno.test("a request during a reading is answered by the next one", async () => {
  const { contents, request, next, during } = await setUp();
  const first = next();
  contents.text = withKubeconfig("/first");
  during(() => {
    contents.text = withKubeconfig("/second");
    request.set();
    during(() => {});
  });
  request.set();
  assertEquals([await first, await next()], ["/first", "/second"]);
});
