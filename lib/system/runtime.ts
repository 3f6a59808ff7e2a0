/**
 * Adapter: everything that the commands need of this process and machine.
 *
 * @module
 */
import process from "node:process";
import { lookup } from "node:dns/promises";
import { parseAddress } from "../model/values/address.ts";
import type { InterfaceAddress, Runtime } from "../model/ports/runtime.ts";
import { plain } from "../model/values/text.ts";
import { SystemClock } from "./clock.ts";
import { keyTyped } from "./keys.ts";
import { MemoryRelease, v8Heap } from "./memory.ts";
import { sendProbe } from "./probe.ts";
import { DenoProcessRunner } from "./process.ts";
import { AbstractSocketLock } from "./node_lock.ts";
import { denoStreamer } from "./streamer.ts";

/** The real one. */
export function systemRuntime(): Runtime {
  const interfaces = interfaceReader();
  const clock = new SystemClock();
  const heap = v8Heap();
  const runner = new DenoProcessRunner();
  const memory = heap && new MemoryRelease(clock, heap);
  return {
    clock,
    runner,
    streamer: denoStreamer,
    lock: new AbstractSocketLock(runner),
    pid: Deno.pid,
    build: { deno: Deno.version.deno, v8: Deno.version.v8, target: Deno.build.target },
    osRelease: () => Deno.osRelease(),
    releaseMemory: (after, signal) => memory?.after(after, signal),
    // All that the kernel lists: `navigator.hardwareConcurrency` is this process's share of them.
    cpus: () => process.getBuiltinModule("node:os").cpus().length,
    environment: (name) => Deno.env.get(name),
    hostname: () => Deno.hostname(),
    hasIpv6,
    addresses: () => interfaces().map(({ address }) => address),
    interfaces,
    resolve: async (host) =>
      (await lookup(host, { all: true })).flatMap(({ address }) => parseAddress(address) ?? []),
    workingDirectory: () => Deno.cwd(),
    readFile: (path) => Deno.readTextFile(path),
    writeFile: (path, text) => Deno.writeTextFile(path, text),
    print: (text) => writeAll(Deno.stdout, text),
    sendProbe,
    isTerminal: () => Deno.stdout.isTerminal(),
    terminalSize,
    keyTyped,
    complain: (line) => Deno.stderr.writeSync(new TextEncoder().encode(`${plain(line)}\n`)),
  };
}

/** The addresses of all interfaces; where no descriptor is free to ask for them, the last ones. */
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

async function writeAll(out: typeof Deno.stdout, text: string): Promise<void> {
  let rest = new TextEncoder().encode(text);
  try {
    while (rest.length > 0) rest = rest.subarray(await out.write(rest));
  } catch (error) {
    // The reader has seen enough, as `head` does.
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function terminalSize(): { readonly columns: number; readonly rows: number } {
  const usual = { columns: 80, rows: 24 };
  try {
    const size = Deno.consoleSize();
    // A terminal that was never told its size has none.
    return size.columns > 0 && size.rows > 0 ? size : usual;
  } catch {
    return usual;
  }
}

/** Linux's error where a kernel has no sockets of a family (EAFNOSUPPORT). */
const NO_FAMILY = /os error 97\b/;

/** A socket is asked for: Deno reads files below /proc only where everything is allowed. */
function hasIpv6(): boolean {
  try {
    Deno.listenDatagram({ transport: "udp", hostname: "::", port: 0 }).close();
    return true;
  } catch (error) {
    return !(error instanceof Error && NO_FAMILY.test(error.message));
  }
}
