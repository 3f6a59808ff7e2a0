/** Adapter: implements the process and the machine for the commands. */
import { cpus } from "node:os";
import { familyOf, parseAddress } from "../model/values/address.ts";
import type {
  InterfaceAddress,
  LockHolder,
  NodeLock,
  ProbeRequest,
  Runtime,
} from "../model/ports/runtime.ts";
import { limitReads } from "../source/api/access/access_source.ts";
import { askDaemon } from "./socket.ts";
import { plain } from "../model/values/text.ts";
import { SystemClock } from "./clock.ts";
import { DenoProcessRunner, denoStreamer } from "./process.ts";
import type { ProcessUsage } from "../observe/metrics/metrics.ts";
import type { Clock, ProcessRunner } from "../model/ports/ports.ts";

export function systemRuntime(): Runtime {
  const interfaces = interfaceReader();
  const clock = new SystemClock();
  const heap = v8Heap();
  const runner = new DenoProcessRunner();
  return {
    clock,
    runner,
    streamer: denoStreamer,
    lock: new AbstractSocketLock(runner),
    pid: Deno.pid,
    build: {
      deno: Deno.version.deno,
      v8: Deno.version.v8,
      // V8 lacks WebAssembly with --jitless.
      jitless: !("WebAssembly" in globalThis),
      target: Deno.build.target,
    },
    osRelease: () => Deno.osRelease(),
    releaseMemory: heap ? memoryRelease(clock, heap) : () => {},
    // Counts all of the kernel: `navigator.hardwareConcurrency` is this process's share.
    cpus: () => cpus().length,
    environment: (name) => Deno.env.get(name),
    hostname: () => Deno.hostname(),
    hasIpv6,
    addresses: () => interfaces().map(({ address }) => address),
    interfaces,
    resolve: async (host) => {
      const { lookup } = await import("node:dns/promises");
      const found = await lookup(host, { all: true });
      return found.flatMap(({ address }) => parseAddress(address) ?? []);
    },
    workingDirectory: () => Deno.cwd(),
    readFile: (path) => Deno.readTextFile(path),
    readRegularFile: limitReads(readRegularFile, clock),
    writeFile,
    print: (data) => writeAll(Deno.stdout, data),
    sendProbe,
    isTerminal: () => Deno.stdout.isTerminal(),
    terminalSize,
    typedKeys,
    askDaemon,
    complain: (line) => Deno.stderr.writeSync(new TextEncoder().encode(`${plain(line)}\n`)),
  };
}

const MAX_FILE = 1024 * 1024;

async function readRegularFile(path: string): Promise<string> {
  const { isFile, size } = await Deno.stat(path);
  if (!isFile) throw new Error("it is not a regular file");
  if (size > MAX_FILE) throw new Error(`it has ${size} bytes, more than ${MAX_FILE}`);
  return await Deno.readTextFile(path);
}

/** Returns a reader of all interfaces' addresses. Without a free descriptor, it returns the last addresses. */
function interfaceReader(): Runtime["interfaces"] {
  let last: readonly InterfaceAddress[] | undefined;
  return () => {
    try {
      last = Deno.networkInterfaces().flatMap(({ name, address: text }) => {
        const address = parseAddress(text);
        return address === undefined ? [] : [{ name, address }];
      });
    } catch (error) {
      if (last === undefined) throw error;
    }
    return last;
  };
}

const writeFile: Runtime["writeFile"] = async (path, data) => {
  if (typeof data === "string") {
    using file = await Deno.open(path, { write: true, create: true, truncate: true, mode: 0o644 });
    return await writeAll(file, data);
  }
  // Private: a new file does not take the mode of an old file, or follow a link in its place.
  const temporary = `${path}.${crypto.randomUUID()}`;
  try {
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    await writeAll(file, data);
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
};

async function writeAll(
  out: Pick<typeof Deno.stdout, "write">,
  data: string | Uint8Array,
): Promise<void> {
  let rest = typeof data === "string" ? new TextEncoder().encode(data) : data;
  try {
    while (rest.length > 0) rest = rest.subarray(await out.write(rest));
  } catch (error) {
    // The reader has closed the pipe, as `head` does.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function terminalSize(): { readonly columns: number; readonly rows: number } {
  const usual = { columns: 80, rows: 24 };
  try {
    const size = Deno.consoleSize();
    // The size of a terminal is 0 until it is set.
    return size.columns > 0 && size.rows > 0 ? size : usual;
  } catch {
    return usual;
  }
}

/** Matches Linux's error if the kernel lacks sockets of a family (EAFNOSUPPORT). */
const NO_FAMILY = /os error 97\b/;

/** Returns true if the kernel has IPv6. It opens a socket: Deno reads files below /proc only with all permissions. */
function hasIpv6(): boolean {
  try {
    Deno.listenDatagram({ transport: "udp", hostname: "::", port: 0 }).close();
    return true;
  } catch (error) {
    return !(error instanceof Error && NO_FAMILY.test(error.message));
  }
}

/** Yields typed keys, or waits forever if the standard input is not a terminal. The abort restores the terminal. */
async function* typedKeys(signal: AbortSignal): AsyncGenerator<string, void> {
  const { stdin } = Deno;
  if (signal.aborted || !stdin.isTerminal()) return await new Promise<void>(() => {});
  const restore = () => stdin.setRaw(false);
  stdin.setRaw(true, { cbreak: true });
  signal.addEventListener("abort", restore, { once: true });
  const typed = new Uint8Array(16);
  for (;;) {
    const count = await stdin.read(typed);
    if (count === null) return await new Promise<void>(() => {});
    const text = new TextDecoder().decode(typed.subarray(0, count));
    // Some keys send a sequence (ECMA-48, CSI).
    yield* text.match(/\p{Cc}\[\d*[A-Z~]|./gsu) ?? [];
  }
}

/** Opens and closes a TCP connection, or sends an empty UDP datagram. It ignores errors. Deno cannot send SCTP. */
async function sendProbe(request: ProbeRequest): Promise<void> {
  if (request.protocol === "tcp") await sendTcp(request);
  else if (request.protocol === "udp") await sendUdp(request);
}

async function sendTcp({ address, port, source, timeout }: ProbeRequest): Promise<void> {
  // Loaded here, because it takes time and the daemon never needs it.
  const { connect } = await import("node:net");
  await new Promise<void>((resolve) => {
    const socket = connect({
      host: address,
      port,
      ...source !== undefined && { localAddress: source },
    });
    const timer = setTimeout(() => socket.destroy(), timeout);
    socket.on("connect", () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

async function sendUdp({ address, port, source }: ProbeRequest): Promise<void> {
  const hostname = source ?? (familyOf(address) === 4 ? "0.0.0.0" : "::");
  let socket;
  try {
    socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
    await socket.send(new Uint8Array(0), { transport: "udp", hostname: address, port });
  } catch {
    // The address or route is missing, or a rule refuses the packet: the trace shows it.
  } finally {
    socket?.close();
  }
}

/** The function behind `cpuUsage` of node:process, which takes 2 MB. Deno's types leave it out. */
interface CpuUsage {
  /** Returns microseconds. */
  cpuUsage(): { readonly user: number; readonly system: number };
}

const GO_NAMES = { x86_64: "amd64", aarch64: "arm64" } as const;

export function processUsage(): ProcessUsage {
  return {
    memory: () => Deno.memoryUsage(),
    cpu: () => {
      const { user, system } = (Deno as unknown as CpuUsage).cpuUsage();
      return (user + system) / 1_000_000;
    },
    started: performance.timeOrigin / 1_000,
    platform: `${Deno.build.os}/${GO_NAMES[Deno.build.arch]}`,
  };
}

/** Aborts at the first SIGTERM or SIGINT. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => controller.abort(name));
  }
  return controller.signal;
}

/** Calls back at each SIGHUP, which then no longer ends the process. */
export function onReload(callback: () => void): void {
  Deno.addSignalListener("SIGHUP", callback);
}

/** The name of the lock, which `ss -xl` shows as `@signpost`. */
const LOCK = "\0signpost";

/** Holds the lock by an abstract Unix socket of the network namespace. A second socket names the holder. */
export class AbstractSocketLock implements NodeLock {
  #isHeld = false;

  /** @param runner runs `cat`: Deno reads files below /proc only with all permissions */
  constructor(private readonly runner: ProcessRunner) {}

  take({ pid, version, since }: LockHolder): boolean {
    if (this.#isHeld) return true;
    try {
      bind(LOCK);
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) return false;
      throw error;
    }
    this.#isHeld = true;
    try {
      bind(`${LOCK}/${pid}/${version}/${since}`);
    } catch {
      // The lock is held, but other processes cannot read its holder.
    }
    return true;
  }

  async holder(): Promise<LockHolder | undefined> {
    try {
      return parseHolders((await this.runner.run(["cat", "/proc/net/unix"])).stdout);
    } catch {
      return undefined;
    }
  }
}

/** Binds a socket that stays until this process ends. */
function bind(path: string): void {
  Deno.listenDatagram({ transport: "unixpacket", path });
}

/** Matches the end of a line of `/proc/net/unix`, where `@` stands for the zero byte. */
const HOLDER =
  / @signpost\/(?<pid>\d{1,9})\/(?<version>[\w.+-]{1,64})\/(?<since>[\dTZ:.-]{1,32})$/gm;

/** Returns the holder that `/proc/net/unix` names. Any process may bind such a name, so two names do not count. */
export function parseHolders(text: string): LockHolder | undefined {
  const [first, second] = text.matchAll(HOLDER);
  if (!first?.groups || second) return undefined;
  const { pid = "", version = "", since = "" } = first.groups;
  return { pid: Number(pid), version, since };
}

/** Milliseconds without work until memory is given back. */
const REST = 1_000;

/** Bytes of objects up to which memory is given back, in 50 ms. Above, V8's memory reducer does it in small steps. */
const MOST = 30e6;

/** Milliseconds until the memory reducer has collected the unused objects of a heap above that limit. */
const REDUCED = 15_000;

/** Bytes taken since the last collection that justify another collection. */
const LEAST = 1.5e6;

/** Milliseconds after which another collection is justified anyway: the bytes taken leave out the free parts of malloc. */
const LONG = 20_000;

interface Heap {
  /** Returns the bytes of objects, with unused objects. */
  readonly used: () => number;
  /** Returns the bytes of the machine that V8 holds for them. */
  readonly taken: () => number;
  readonly collect: () => void;
}

/** Returns the heap of this process; `undefined` without `--expose-gc`. */
function v8Heap(): Heap | undefined {
  const { gc } = globalThis as {
    readonly gc?: (options: Readonly<Record<"type" | "execution" | "flavor", string>>) => void;
  };
  return gc && {
    used: () => Deno.memoryUsage().heapUsed,
    taken: () => Deno.memoryUsage().heapTotal,
    collect: () => {
      gc({ type: "major", execution: "sync", flavor: "last-resort" });
      // V8 frees buffers in other threads, after the collection.
      setTimeout(trim, 500);
    },
  };
}

/** Has Deno give back the free parts of malloc, if DENO_USR2_MEMORY_TRIM is set. Without a listener, the signal kills. */
function trim(): void {
  Deno.addSignalListener("SIGUSR2", ignoreSignal);
  Deno.kill(Deno.pid, "SIGUSR2");
}

function ignoreSignal(): void {}

/** Gives memory back after work: a small heap never has so much garbage that V8 itself would look for it. */
export function memoryRelease(clock: Clock, heap: Heap): Runtime["releaseMemory"] {
  let workedAt = 0;
  let isWaiting = false;
  let collectedAt = -Infinity;
  /** Bytes taken after the last collection. */
  let left = 0;
  const rest = async (signal: AbortSignal) => {
    for (let wait = REST; wait > 0 && !signal.aborted;) {
      await clock.sleep(wait, signal);
      wait = workedAt + REST - clock.monotonic();
    }
    if (heap.used() > MOST) await clock.sleep(REDUCED, signal);
    isWaiting = false;
    const now = clock.monotonic();
    const isWorthIt = heap.taken() >= left + LEAST || now - collectedAt >= LONG;
    if (signal.aborted || heap.used() > MOST || !isWorthIt) return;
    collectedAt = now;
    heap.collect();
    left = heap.taken();
  };
  return (signal) => {
    workedAt = clock.monotonic();
    // One timer serves all: clients may end thousands of connections a second.
    if (isWaiting) return;
    isWaiting = true;
    void rest(signal);
  };
}
