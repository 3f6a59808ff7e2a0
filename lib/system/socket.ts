/**
 * Adapter: serves HTTP and JSON on the daemon's local socket, and sends to systemd's notification socket.
 *
 *     curl --unix-socket /run/signpost/signpost.sock http://signpost/v1/status
 *
 * A client of the local socket (mode 0660) can read everything, and can ask for a look at the node and a full sync.
 */
import { messageOf } from "../model/values/errors.ts";
import type { Clock, Logger } from "../model/ports/ports.ts";
import type { DaemonRequest } from "../model/ports/runtime.ts";
import type { NotifySocket } from "../observe/systemd.ts";

/** Answers by method and path with bytes, or a value to send as JSON; `undefined` before the objects are complete. */
export type SocketRoutes = Readonly<
  Record<string, (query: URLSearchParams) => unknown | Promise<unknown>>
>;

interface SocketOptions {
  readonly path: string;
  readonly routes: SocketRoutes;
  readonly clock: Pick<Clock, "sleep">;
  readonly logger: Pick<Logger, "warn">;
  readonly signal: AbortSignal;
}

const MODE = 0o660;

/** Milliseconds that an answer may take. */
const TIMEOUT = 10_000;

/** Bytes of a JSON answer: the status of 100,000 Services with a conflict each has 20 MB. */
const MOST_JSON = 64 * 1024 * 1024;

/** Milliseconds until the next try, if a socket could not be bound or descriptors were used up. */
const RETRY = 5_000;

/** Serves until the signal aborts. If that fails, it warns and tries again, and the daemon runs without a socket. */
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

/** Binds under a private name first, because Deno removes its socket by that name, which could be another daemon's. */
async function serveOnce(
  folder: string,
  { path, routes, signal }: SocketOptions,
): Promise<void> {
  const own = `${folder}/s`;
  const bind = async () => {
    // A server does not notice an earlier abort.
    if (signal.aborted) return undefined;
    const listening = { path: own, signal, onListen: () => {} };
    const { finished } = Deno.serve(listening, (request) => answer(request, routes));
    await Deno.chmod(own, MODE);
    const { ino } = await Deno.stat(own);
    await Deno.rename(own, path);
    return { finished, ino };
  };
  await Deno.mkdir(path.slice(0, path.lastIndexOf("/") + 1), { recursive: true }).catch(() => {});
  // Other users cannot open the socket before it has its mode.
  await Deno.mkdir(folder, { mode: 0o700 });
  const bound = await bind().finally(() =>
    Deno.remove(folder, { recursive: true }).catch(() => {})
  );
  await bound?.finished;
  const there = await Deno.stat(path).catch(() => undefined);
  if (bound && there?.ino === bound.ino) await Deno.remove(path).catch(() => {});
}

async function answer(request: Request, routes: SocketRoutes): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const wanted = `${request.method} ${pathname}`;
  const route = routes[wanted];
  if (!route) return Response.json({ error: `there is no ${wanted}` }, { status: 404 });
  const answer = await route(searchParams);
  if (answer instanceof ReadableStream) return new Response(answer);
  return answer === undefined
    ? Response.json({ error: "the objects are not complete yet" }, { status: 503 })
    : Response.json(answer);
}

/** Asks the daemon behind a socket. @throws {Error} without an answer in time, or if it does not know the request */
export async function askDaemon(path: string, request: DaemonRequest): Promise<unknown> {
  const { method, read, timeout = TIMEOUT } = request;
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  // An address, because Deno would look up a name, which takes long offline.
  const response = await fetch(`http://127.0.0.1${request.path}`, {
    client,
    method,
    signal: AbortSignal.timeout(timeout),
  });
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`the daemon answers ${response.status}`);
  }
  if (!response.body) throw new Error("the daemon answers without a body");
  return await (read ?? readJson)(response.body);
}

async function readJson(body: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<unknown> {
  let size = 0;
  const bounded = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, controller) => {
      size += chunk.length;
      if (size > MOST_JSON) throw new Error(`the daemon's answer has more than ${MOST_JSON} bytes`);
      controller.enqueue(chunk);
    },
  });
  return await new Response(body.pipeThrough(bounded)).json();
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
