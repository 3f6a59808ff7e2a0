import { assertEquals, assertMatch } from "@std/assert";
import { nftablesBackend } from "../../../lib/backend/nftables/backend.ts";
import { Devices, matchingInterfaces } from "../../../lib/backend/nftables/devices.ts";
import { ApplyError } from "../../../lib/model/kernel/dataplane.ts";
import { type Clock, ProgramFailedError } from "../../../lib/model/ports/ports.ts";
import { MemoryLogger } from "../../support/clock_and_log.ts";
import { configuration, DEFAULTS } from "../../support/configuration.ts";
import { eventually } from "../../support/eventually.ts";
import { Pipeline } from "../../support/pipeline.ts";
import { wholeInput } from "../../support/whole_input.ts";

/** Prints some interfaces as `/proc/net/dev` does. */
function table(...names: readonly string[]): string {
  const lines = names.map((name) => `${name.padStart(6)}: 84 1 0 0 0 0 0 0 84 1 0 0 0 0 0 0`);
  return ["Inter-|   Receive  |  Transmit", " face |bytes packets|bytes", ...lines].join("\n");
}

/** A clock whose time stands still, and sleepers go on. */
const TIMELESS: Clock = {
  now: () => 0,
  monotonic: () => 0,
  sleep: () => new Promise((resolve) => setTimeout(resolve, 1)),
};

/** A kernel with interfaces, and with a flowtable that refuses some devices. */
function stage(options: { readonly refuses?: readonly string[] } = {}) {
  const kernel = {
    interfaces: ["lo", "eth0"],
    isReadable: true,
    devices: [] as string[] | undefined,
    now: 0,
    onList: () => {},
  };
  const scripts: string[] = [];
  const warnings: string[] = [];
  const devices = new Devices({
    nft: {
      listDevices: () => {
        const devices = kernel.devices && [...kernel.devices];
        kernel.onList();
        return Promise.resolve(devices);
      },
      apply: (script) => {
        scripts.push(script);
        const names = [...script.matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name);
        const { devices = [], interfaces } = kernel;
        if (names.some((name) => options.refuses?.includes(name) || !interfaces.includes(name))) {
          if (script.startsWith("add")) {
            return Promise.reject(new ApplyError("conflict", "No such file or directory"));
          }
        }
        kernel.devices = script.startsWith("add")
          ? [...new Set([...devices, ...names])]
          : devices.filter((name) => !names.includes(name));
        return Promise.resolve();
      },
    },
    runner: {
      run: () =>
        kernel.isReadable
          ? Promise.resolve({ code: 0, stdout: table(...kernel.interfaces), stderr: "" })
          : Promise.reject(new ProgramFailedError("cat", "timeout", "did not end in time")),
    },
    clock: { ...TIMELESS, monotonic: () => kernel.now },
    logger: { warn: (message, fields) => warnings.push(`${message} ${JSON.stringify(fields)}`) },
    streamer: {
      async *lines(argv) {
        await Promise.resolve();
        if (argv.includes("ipv4")) yield "tcp 6 src=10.244.0.2 [OFFLOAD] mark=0 use=2";
      },
    },
    settings: { interfaces: ["eth0", "veth*"], packets: 20 },
  });
  return { kernel, scripts, warnings, devices };
}

Deno.test("interfaces that match a pattern become devices", async () => {
  const { kernel, scripts, devices } = stage();
  kernel.interfaces.push("veth1", "cni0");
  await devices.look();
  assertEquals(scripts, [
    'add flowtable inet signpost fast-path { hook ingress priority 0; counter; devices = { "eth0", "veth1" }; }\n',
  ]);
});

Deno.test("an interface that comes is added, one that went is taken out", async () => {
  const { kernel, devices } = stage();
  await devices.look();
  kernel.interfaces = ["lo", "veth2"];
  await devices.look();
  assertEquals(kernel.devices, ["veth2"]);
});

Deno.test("while no interface comes or goes, the flowtable is read every 30 seconds", async () => {
  const { kernel, devices } = stage();
  await devices.look();
  kernel.devices = [];
  kernel.now = 29_000;
  await devices.look();
  assertEquals(kernel.devices, []);
  kernel.now = 31_000;
  await devices.look();
  assertEquals(kernel.devices, ["eth0"]);
});

Deno.test("a table that was replaced gets its devices at the next look", async () => {
  const { kernel, devices } = stage();
  await devices.look();
  kernel.devices = [];
  devices.replaced();
  await devices.look();
  assertEquals(kernel.devices, ["eth0"]);
});

Deno.test("a flowtable that a repair wrote again gets its devices at the next look", async () => {
  const acceleration = { interfaces: ["eth0"], packets: 20, services: "all" } as const;
  const signpost = { ...DEFAULTS.signpost, acceleration };
  const { desired } = new Pipeline({ configuration: { signpost } });
  const kernel = { table: "", devices: ["eth0"] };
  const answer = (argv: readonly string[], script: string) => {
    if (argv[0] === "cat") return table("lo", "eth0");
    if (argv.includes("flowtable")) return `\t\tdevices = { ${kernel.devices.join(", ")} }\n`;
    if (argv.includes("list")) return kernel.table;
    if (script.includes("add flowtable")) kernel.devices = script.match(/(?<=")eth0/g) ?? [];
    return "";
  };
  const backend = nftablesBackend({
    configuration: configuration({ signpost }),
    runtime: {
      runner: {
        run: async (argv, stdin) => {
          const script = stdin === undefined ? "" : await wholeInput(stdin);
          return { code: 0, stdout: answer(argv, script), stderr: "" };
        },
      },
      streamer: { async *lines() {} },
      clock: TIMELESS,
      hasIpv6: () => true,
      pid: 4711,
      osRelease: () => "6.0.0",
    },
    logger: new MemoryLogger(),
  });
  await backend.dataplane.apply(backend.dataplane.full(desired));
  const ending = new AbortController();
  let drifts = 0;
  const onDrift = () => drifts++;
  const following = backend.dataplane.watchDrift({
    desired,
    onDrift,
    onChange() {},
    signal: ending.signal,
  });
  await eventually("the first look", () => backend.acceleration);
  await eventually("the drift", () => drifts > 0);
  const { text } = backend.dataplane.full(desired);
  // nft lists the same with tabs, and one statement on each line.
  kernel.table = text.slice(text.indexOf("table inet signpost {")).replaceAll("  ", "\t")
    .replaceAll("; ", "\n\t\t").replace(/^\tflowtable [^}]*}\n/m, "");
  const script = await backend.dataplane.repair(desired);
  assertMatch(script?.text ?? "", /^add flowtable inet signpost fast-path/m);
  if (script) await backend.dataplane.apply(script);
  assertEquals(kernel.devices, []);
  await eventually("the devices", () => kernel.devices.includes("eth0"));
  ending.abort();
  await following;
});

Deno.test("while the interfaces cannot be read, the devices stay", async () => {
  const { kernel, devices } = stage();
  await devices.look();
  kernel.isReadable = false;
  await devices.look();
  assertEquals(kernel.devices, ["eth0"]);
});

Deno.test("a table that is replaced during a look gets its devices at the next one", async () => {
  const { kernel, devices } = stage();
  kernel.devices = ["eth0"];
  kernel.onList = () => {
    kernel.devices = [];
    devices.replaced();
    kernel.onList = () => {};
  };
  await devices.look();
  await devices.look();
  assertEquals(kernel.devices, ["eth0"]);
});

Deno.test("without a flowtable nothing is written", async () => {
  const { kernel, scripts, devices } = stage();
  kernel.devices = undefined;
  await devices.look();
  assertEquals(scripts, []);
});

Deno.test("interfaces and connections are counted", async () => {
  const { devices } = stage();
  assertEquals(devices.summary, undefined);
  const ending = new AbortController();
  const following = devices.follow(ending.signal);
  await eventually("a count", () => devices.summary?.connections !== null && devices.summary);
  ending.abort();
  await following;
  assertEquals(devices.summary, { packets: 20, interfaces: ["eth0"], connections: 1 });
});

Deno.test("a refused interface does not keep another one out", async () => {
  const { kernel, warnings, devices } = stage({ refuses: ["veth1"] });
  kernel.interfaces.push("veth1", "veth2");
  await devices.look();
  devices.replaced();
  await devices.look();
  assertEquals(kernel.devices, ["eth0", "veth2"]);
  assertEquals(warnings.length, 1);
  assertMatch(warnings[0] ?? "", /"interface":"veth1"/);
});

Deno.test("a name that could end a quoted name matches no pattern", () => {
  const text = table("lo", 'veth"}', "veth1", "veth.5", "vethX");
  assertEquals(matchingInterfaces(text, ["*"]), ["veth.5", "veth1", "vethX"]);
  assertEquals(matchingInterfaces(text, ["veth.5", "eth0"]), ["veth.5"]);
});
