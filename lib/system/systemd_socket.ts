/**
 * Adapter: datagrams to systemd's notification socket.
 *
 * Deno opens AF_UNIX datagram sockets with `Deno.listenDatagram` (unstable feature `net`). It must bind a name of
 * its own before it can send; an abstract one (unix(7)) leaves no file behind. Permissions: network for the own
 * name and an abstract address, writing for a path.
 * @module
 */
import type { NotifySocket } from "../observe/systemd.ts";

/**
 * Opens a socket to send from.
 * @param address a path, or `@` and an abstract name, as NOTIFY_SOCKET has it
 * @throws where no socket can be made or it is not permitted
 */
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
