/**
 * Stands in for signpost under the real unit file: it notifies systemd as signpost does, and
 * writes down what the unit's sandbox lets it do.
 *
 * Signals: HUP reloads, TERM stops, USR1 makes it pretend that its loop is stuck.
 */
import { ServiceManager, takeSystemdEnvironment } from "../../../lib/observe/systemd.ts";
import { openNotifySocket } from "../../../lib/system/socket.ts";

const REPORT = "/var/lib/signpost/probe.json";

const { notifySocket, watchdog } = takeSystemdEnvironment(Deno.env, Deno.pid);
const abort = new AbortController();
let isAlive = true;
let reloads = 0;

const manager = new ServiceManager({
  socket: notifySocket === undefined ? undefined : openNotifySocket(notifySocket),
  watchdog,
  clock: { sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds)) },
  logger: { error: fail, warn: fail, info: () => {}, debug: () => {} },
});

function fail(message: string, fields: unknown): void {
  throw new Error(`${message} ${JSON.stringify(fields)}`);
}

async function run(program: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args }).output();
  return new TextDecoder().decode(success ? stdout : stderr);
}

async function attempt(action: () => Promise<unknown>): Promise<string> {
  try {
    await action();
    return "done";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}

/** Writes nothing: were the sandbox open, this would be the host's setting. */
async function openForWriting(path: string): Promise<void> {
  (await Deno.open(path, { write: true })).close();
}

/** Listens and connects, as the health server and the API client do. */
async function exchange(): Promise<void> {
  const server = Deno.serve({ hostname: "::", port: 0, onListen: () => {} }, () => new Response());
  await (await fetch(`http://127.0.0.1:${server.addr.port}/`)).text();
  await server.shutdown();
}

async function probe(): Promise<Record<string, string>> {
  return {
    nft: await run("nft", "add table inet signpost-probe"),
    legacy: await run("iptables-legacy", "-w", "-t", "filter", "-N", "SIGNPOST-PROBE"),
    http: await attempt(exchange),
    childEnvironment: await run("env"),
    sysctl: await attempt(() =>
      Deno.writeTextFile("/proc/sys/net/ipv4/conf/all/route_localnet", "1")
    ),
    otherSysctl: await attempt(() => openForWriting("/proc/sys/kernel/core_pattern")),
    optional: await attempt(() => Deno.writeTextFile("/opt/probe", "x")),
    run: await attempt(() => Deno.writeTextFile("/run/signpost/probe", "x")),
    units: await attempt(() => Deno.writeTextFile("/run/systemd/system/probe.service", "x")),
  };
}

Deno.addSignalListener("SIGUSR1", () => {
  isAlive = false;
});
Deno.addSignalListener("SIGHUP", () => {
  reloads += 1;
  void manager.report("RELOADING").then(() => manager.report("READY", `reloaded ${reloads}`));
});
Deno.addSignalListener("SIGTERM", () => {
  void manager.report("STOPPING").then(() => Deno.exit(0));
});

await Deno.writeTextFile(REPORT, JSON.stringify(await probe()));
await manager.report("READY", "in service");
await manager.feedWatchdog(() => isAlive, abort.signal);
