/**
 * Adapter: sends the first packet of a connection from this machine.
 *
 * @module
 */
import process from "node:process";
import { familyOf } from "../model/values/address.ts";
import type { ProbeRequest } from "../model/ports/runtime.ts";

/**
 * Opens a TCP connection and closes it, or sends an empty UDP datagram. That no answer comes is no
 * error. SCTP is not sent: Deno cannot.
 */
export async function sendProbe(request: ProbeRequest): Promise<void> {
  if (request.protocol === "tcp") await sendTcp(request);
  else if (request.protocol === "udp") await sendUdp(request);
}

function sendTcp({ address, port, source, timeout }: ProbeRequest): Promise<void> {
  // Only here, for it takes time to load, and the daemon never needs it.
  const { connect } = process.getBuiltinModule("node:net");
  return new Promise((resolve) => {
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
  const socket = Deno.listenDatagram({ transport: "udp", hostname, port: 0 });
  try {
    await socket.send(new Uint8Array(0), { transport: "udp", hostname: address, port });
  } catch {
    // No route, or refused by the rules: the trace tells.
  } finally {
    socket.close();
  }
}
