/**
 * Adapter: the daemon's local socket, which serves HTTP and JSON, and the sender to systemd's notification socket.
 *
 *     curl --unix-socket /run/signpost/signpost.sock http://signpost/v1/status
 *
 * A client of the local socket (mode 0660) can see everything, and ask for a look at the node and a full sync, no more.
 */
import type { CommandLine } from "../model/configuration.ts";
import { messageOf } from "../model/values/errors.ts";
import type { ConnectionsReport } from "../model/connections.ts";
import type { HeldBackPorts } from "../model/kernel/differences.ts";
import type { Status } from "../model/status.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import type { DaemonRequest } from "../model/ports/runtime.ts";
import type { NotifySocket } from "../observe/systemd.ts";

interface SocketOptions {
  readonly path: string;
  /** Returns the status, with that of a Service by `namespace/name` if one is given. */
  readonly status: (service?: string) => Status;
  /** Brings the findings up to date. */
  readonly refresh: () => Promise<void>;
  /** Returns the objects of one Service or all as the text of a state; `undefined` if there are none yet. */
  readonly objects: (service?: string) => AsyncIterable<Uint8Array> | undefined;
  /** Returns the Services of that name in all namespaces, as `namespace/name`. */
  readonly services: (name: string) => readonly string[];
  /** Returns the busiest Services, at most so many. */
  readonly connections: (most?: number) => Promise<ConnectionsReport>;
  readonly commandLine: CommandLine;
  readonly heldBack: () => readonly HeldBackPorts[];
  readonly requestFull: (reason: string) => void;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const MODE = 0o660;

/** Milliseconds that an answer may take. */
const TIMEOUT = 10_000;

/** Milliseconds until another try, if a socket could not be bound or no descriptor was free. */
const RETRY = 5_000;

/** Serves until the signal aborts. If it cannot, it warns and tries again; the daemon runs on without a socket. */
export async function serveSocket(options: SocketOptions): Promise<void> {
  const { path, clock, logger, signal } = options;
  // One name for all tries: an error that names it is logged once.
  const folder = `${path}.${crypto.randomUUID()}`;
  let lastReason: string | undefined;
  while (!signal.aborted) {
    try {
      await serveOnce(folder, options);
    } catch (error) {
      const reason = messageOf(error);
      const message =
        "no local socket, so `signpost status` and `verify --fix` cannot ask this daemon; trying again every 5 seconds";
      if (reason !== lastReason) logger.warn(message, { path, reason });
      lastReason = reason;
    }
    await clock.sleep(RETRY, signal);
  }
}

/** Binds under an own name first: Deno removes its socket by that name, which must not be another daemon's. */
async function serveOnce(folder: string, options: SocketOptions): Promise<void> {
  const { path, signal } = options;
  const own = `${folder}/s`;
  const bind = async () => {
    // A server does not notice an earlier abort.
    if (signal.aborted) return undefined;
    const listening = { path: own, signal, onListen: () => {} };
    const { finished } = Deno.serve(listening, (request) => answer(request, options));
    await Deno.chmod(own, MODE);
    const { ino } = await Deno.stat(own);
    await Deno.rename(own, path);
    return { finished, ino };
  };
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/") + 1), { recursive: true }).catch(() => {});
  // Nobody else can open the socket before it has its mode.
  await Deno.mkdir(folder, { mode: 0o700 });
  const bound = await bind().finally(() =>
    Deno.remove(folder, { recursive: true }).catch(() => {})
  );
  await bound?.finished;
  const there = await Deno.stat(path).catch(() => undefined);
  if (bound && there?.ino === bound.ino) await Deno.remove(path).catch(() => {});
}

async function answer(request: Request, options: SocketOptions): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const service = searchParams.get("service") ?? undefined;
  const top = searchParams.get("top") ?? "";
  switch (`${request.method} ${pathname}`) {
    case "GET /v1/status":
      if (searchParams.has("fresh")) await options.refresh();
      return Response.json(options.status(service));
    case "GET /v1/objects": {
      const text = options.objects(service);
      return text
        ? new Response(ReadableStream.from(text))
        : Response.json({ error: "the objects are not complete yet" }, { status: 503 });
    }
    case "GET /v1/services":
      return Response.json(options.services(searchParams.get("name") ?? ""));
    case "GET /v1/connections":
      return Response.json(
        await options.connections(/^\d{1,9}$/.test(top) ? Number(top) : undefined),
      );
    case "GET /v1/command-line":
      return Response.json(options.commandLine);
    case "GET /v1/held-back":
      return Response.json(options.heldBack());
    case "POST /v1/full-sync":
      options.requestFull("asked for at the local socket");
      return Response.json({ requested: true });
    default: {
      const error = `there is no ${request.method} ${pathname}`;
      return Response.json({ error }, { status: 404 });
    }
  }
}

/** Asks the daemon behind a socket. @throws {Error} if none answers in time, or it does not know the request */
export async function askDaemon(path: string, request: DaemonRequest): Promise<unknown> {
  const { method, read, timeout = TIMEOUT } = request;
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  // An address: Deno would look up a name, which takes long offline.
  const response = await fetch(`http://127.0.0.1${request.path}`, {
    client,
    method,
    signal: AbortSignal.timeout(timeout),
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`the daemon answers ${response.status}`);
  }
  return read && response.body ? await read(response.body) : await response.json();
}

/** Opens a socket to send from. @param address a path, or `@` and an abstract name, as in NOTIFY_SOCKET */
export function openNotifySocket(address: string): NotifySocket {
  const path = address.startsWith("@") ? `\0${address.slice(1)}` : address;
  const encoder = new TextEncoder();
  const socket = Deno.listenDatagram({
    transport: "unixpacket",
    path: `\0signpost-notify-${Deno.pid}-${crypto.randomUUID()}`,
  });
  return {
    send: async (datagram) => {
      await socket.send(encoder.encode(datagram), { transport: "unixpacket", path });
    },
    close: () => socket.close(),
  };
}
