import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  logsToJournal,
  type NotifySocket,
  ServiceManager,
  takeSystemdEnvironment,
} from "../../lib/observe/systemd.ts";
import { openNotifySocket } from "../../lib/system/socket.ts";
import { ManualClock, MemoryLogger, settle, START } from "../support/clock_and_log.ts";
import { execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

function environment(values: Record<string, string>) {
  const map = new Map(Object.entries(values));
  return { map, get: (name: string) => map.get(name), delete: (name: string) => map.delete(name) };
}

function start(watchdog?: number) {
  const sent: string[] = [];
  const socket: NotifySocket = {
    send: (datagram) => Promise.resolve(void sent.push(datagram)),
    close: () => {},
  };
  const clock = new ManualClock(START);
  const logger = new MemoryLogger();
  return { sent, clock, manager: new ServiceManager({ socket, watchdog, clock, logger }) };
}

Deno.test("systemd's variables are read and taken away from child processes", () => {
  const values = { NOTIFY_SOCKET: "/run/x", WATCHDOG_USEC: "3000000", WATCHDOG_PID: "7", A: "b" };
  const given = environment(values);
  assertEquals(takeSystemdEnvironment(given, 7), { notifySocket: "/run/x", watchdog: 3_000 });
  assertEquals([...given.map.keys()], ["A"]);
});

Deno.test("lines go to the journal if systemd started this process with its output there", () => {
  const isJournal = (values: Readonly<Record<string, string>>) =>
    logsToJournal({ environment: (name) => values[name], pid: 7 });
  assertEquals(isJournal({ JOURNAL_STREAM: "8:1234", SYSTEMD_EXEC_PID: "7" }), true);
  assertEquals(isJournal({ JOURNAL_STREAM: "8:1234", SYSTEMD_EXEC_PID: "6" }), false);
  assertEquals(isJournal({ JOURNAL_STREAM: "8:1234" }), false);
  assertEquals(isJournal({ SYSTEMD_EXEC_PID: "7" }), false);
});

Deno.test("a watchdog for another process is not used", () => {
  const values = { NOTIFY_SOCKET: "@x", WATCHDOG_USEC: "3000000", WATCHDOG_PID: "8" };
  assertEquals(takeSystemdEnvironment(environment(values), 7), {
    notifySocket: "@x",
    watchdog: undefined,
  });
  for (const text of ["", "0", "-1", "x"]) {
    const { watchdog } = takeSystemdEnvironment(environment({ WATCHDOG_USEC: text }), 7);
    assertEquals(watchdog, undefined, text);
  }
});

Deno.test("addresses that are neither a path nor abstract are left alone", () => {
  for (const address of ["", "@", "/", "vsock:2:1", "relative"]) {
    const given = environment({ NOTIFY_SOCKET: address });
    assertEquals(takeSystemdEnvironment(given, 7).notifySocket, undefined, address);
  }
});

Deno.test("the messages are those of sd_notify(3)", async () => {
  const { manager, sent } = start();
  await manager.report("READY", "3 Services");
  await manager.report("RELOADING");
  await manager.report("READY");
  await manager.report("READY", "a\nSTOPPING=1");
  await manager.report("STOPPING");
  assertEquals(sent, [
    "READY=1\nSTATUS=3 Services",
    "RELOADING=1",
    "READY=1",
    "READY=1\nSTATUS=a\\nSTOPPING=1",
    "STOPPING=1",
  ]);
});

Deno.test("the watchdog is fed twice a period", async () => {
  const { manager, sent, clock } = start(2_000);
  const stop = new AbortController();
  let isAlive = true;
  const fed = manager.feedWatchdog(() => isAlive, stop.signal);
  await settle();
  for (let half = 0; half < 3; half++) await clock.advance(1_000);
  assertEquals(sent, Array(4).fill("WATCHDOG=1"));
  isAlive = false;
  await clock.advance(1_000);
  assertEquals(sent.length, 4);
  isAlive = true;
  await clock.advance(1_000);
  assertEquals(sent.length, 5);
  stop.abort();
  await fed;
});

Deno.test("nothing is sent without systemd", async () => {
  const { clock, manager } = start();
  await manager.feedWatchdog(() => true, new AbortController().signal);
  const logger = new MemoryLogger();
  const alone = new ServiceManager({ socket: undefined, watchdog: 1_000, clock, logger });
  await alone.report("READY", "x");
  await alone.feedWatchdog(() => true, new AbortController().signal);
  assertEquals(logger.entries, []);
});

Deno.test("a socket that does not take it is a warning, once", async () => {
  const logger = new MemoryLogger();
  const socket = openNotifySocket("/nonexistent/notify");
  const manager = new ServiceManager({
    socket,
    watchdog: undefined,
    clock: new ManualClock(START),
    logger,
  });
  await manager.report("READY", "a");
  await manager.report("STOPPING");
  assertEquals(logger.messages, ["cannot notify systemd"]);
  socket.close();
});

Deno.test("datagrams arrive at a path and at an abstract address", async () => {
  await using folder = await makeFolder("notify");
  for (const address of [`${folder.path}/notify`, `@signpost-test-${crypto.randomUUID()}`]) {
    const path = address.replace(/^@/, "\0");
    const receiver = Deno.listenDatagram({ transport: "unixpacket", path });
    const socket = openNotifySocket(address);
    await socket.send("READY=1\nSTATUS=ü");
    const [datagram] = await receiver.receive();
    assertEquals(new TextDecoder().decode(datagram), "READY=1\nSTATUS=ü");
    socket.close();
    receiver.close();
  }
});

Deno.test("the socket needs the network, a path to write to", async () => {
  await using folder = await makeFolder("notify");
  const path = `${folder.path}/notify`;
  const receiver = Deno.listenDatagram({ transport: "unixpacket", path });
  const adapter = new URL("../../lib/system/socket.ts", import.meta.url).href;
  const stdin = `import { openNotifySocket } from ${JSON.stringify(adapter)};
    await openNotifySocket(${JSON.stringify(path)}).send("READY=1");`;
  const flags = ["--no-config", "--no-prompt", "--unstable-net", "--allow-net"];
  const send = (...more: string[]) =>
    execute([Deno.execPath(), "run", ...flags, ...more, "-"], { stdin });
  const refused = await send();
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.stderr, "NotCapable");
  const allowed = await send(`--allow-write=${path}`);
  assertEquals(allowed.code, 0, allowed.stderr);
  const [datagram] = await receiver.receive();
  assertEquals(new TextDecoder().decode(datagram), "READY=1");
  receiver.close();
});
