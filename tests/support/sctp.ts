/**
 * SCTP without the kernel's help, which many kernels do not give: a raw INIT chunk (RFC 9260,
 * section 3.3.2) that is known by its initiate tag wherever it arrives.
 */
import type { EventLoop } from "./event_loop.ts";
import { type Libc, SystemError } from "./libc.ts";
import type { SocketAddress } from "./socket_address.ts";
import { type ConnectOptions, type Outcome, refusal } from "./traffic.ts";

const IPPROTO_SCTP = 132;
const INIT = 1;
const COMMON_HEADER = 12;
const CHUNK = 20;

/** The address at which an INIT chunk arrived, and its sender. */
interface Arrival {
  readonly host: string;
  readonly at: SocketAddress;
  readonly peer: SocketAddress;
}

/** Sends INIT chunks, and hears them in the namespaces that listen. */
export class SctpProbes {
  readonly #libc: Libc;
  readonly #loop: EventLoop;
  readonly #waiting = new Map<number, (arrival: Arrival) => void>();

  constructor(libc: Libc, loop: EventLoop) {
    this.#libc = libc;
    this.#loop = loop;
  }

  /** Hears all SCTP packets that a namespace gets for an address of its own. */
  listen(where: {
    readonly namespace: number;
    readonly host: string;
    readonly address: string;
  }): () => void {
    const { namespace, host, address } = where;
    const family = address.includes(":") ? 6 : 4;
    const socket = this.#libc.socket(namespace, { family, type: "raw", protocol: IPPROTO_SCTP });
    this.#libc.bind(socket, { address, port: 0 });
    this.#loop.watch(socket, () => {
      const got = this.#libc.receive(socket);
      if (!got) return;
      // Raw IPv4 sockets give the IP header, too: see raw(7).
      const packet = family === 4 ? got.data.subarray(((got.data[0] ?? 0) & 15) * 4) : got.data;
      if (packet.length < COMMON_HEADER + CHUNK || packet[COMMON_HEADER] !== INIT) return;
      const view = new DataView(packet.buffer, packet.byteOffset);
      this.#waiting.get(view.getUint32(COMMON_HEADER + 4))?.({
        host,
        at: { address, port: view.getUint16(2) },
        peer: { address: got.peer.address, port: view.getUint16(0) },
      });
    });
    return () => this.#loop.close(socket);
  }

  /** Sends one INIT chunk, and tells what became of it. */
  async probe(options: Omit<ConnectOptions, "protocol">): Promise<Outcome> {
    const { namespace, source, destination, timeout } = options;
    const family = destination.address.includes(":") ? 6 : 4;
    const tag = randomUint32();
    const port = 32_768 + randomUint32() % 28_000;
    const socket = this.#libc.socket(namespace, { family, type: "raw", protocol: IPPROTO_SCTP });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    this.#waiting.set(
      tag,
      (answer) => resolve({ type: "answer", answer, source: { address: source.address, port } }),
    );
    const timer = setTimeout(() => resolve({ type: "drop" }), timeout);
    this.#loop.watch(socket, () => {
      if (this.#wasRefused(socket, tag)) resolve({ type: "reject", error: "ECONNREFUSED" });
    });
    try {
      this.#libc.bind(socket, source);
      this.#libc.setOption(socket, family === 4 ? "receiveErrors4" : "receiveErrors6");
      this.#libc.connect(socket, { address: destination.address, port: 0 });
      this.#libc.send(socket, encodeInit({ source: port, destination: destination.port, tag }));
    } catch (error) {
      // As with UDP, EPERM tells no drop from a reject; the ICMP error of a reject follows.
      if (!(error instanceof SystemError && error.code === "EPERM")) resolve(refusal(error));
    }
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(tag);
      this.#loop.close(socket);
    }
  }

  /** A raw socket hears of all packets between its two addresses, those of other probes too. */
  #wasRefused(socket: number, tag: number): boolean {
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setUint32(0, tag);
    let isOurs = false;
    for (
      let packet = this.#libc.takeQuotedPacket(socket);
      packet;
      packet = this.#libc.takeQuotedPacket(socket)
    ) {
      isOurs ||= contains(packet, bytes);
    }
    try {
      this.#libc.receive(socket);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error;
    }
    return isOurs;
  }
}

function contains(bytes: Uint8Array, part: Uint8Array): boolean {
  return bytes.some((_, start) => part.every((byte, i) => bytes[start + i] === byte));
}

function encodeInit(init: {
  readonly source: number;
  readonly destination: number;
  readonly tag: number;
}): Uint8Array<ArrayBuffer> {
  const packet = new Uint8Array(COMMON_HEADER + CHUNK);
  const view = new DataView(packet.buffer);
  view.setUint16(0, init.source);
  view.setUint16(2, init.destination);
  view.setUint8(COMMON_HEADER, INIT);
  view.setUint16(COMMON_HEADER + 2, CHUNK);
  view.setUint32(COMMON_HEADER + 4, init.tag);
  view.setUint32(COMMON_HEADER + 8, 65_536);
  view.setUint16(COMMON_HEADER + 12, 1);
  view.setUint16(COMMON_HEADER + 14, 1);
  view.setUint32(COMMON_HEADER + 16, randomUint32());
  view.setUint32(8, crc32c(packet), true);
  return packet;
}

/** The checksum of RFC 9260, appendix A. */
function crc32c(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  }
  return (value ^ 0xffffffff) >>> 0;
}

function randomUint32(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
}
