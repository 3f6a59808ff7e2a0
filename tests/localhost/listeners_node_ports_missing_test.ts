import { assertEquals } from "@std/assert";
import { missingListeners } from "../../lib/localhost/listeners.ts";

const WANTED = [
  { family: 4, port: 30080, servicePort: "shop/web:http" },
  { family: 6, port: 30080, servicePort: "shop/web:http" },
] as const;

const HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";

function socket(address: string, state = "0A"): string {
  const peer = "0".repeat(address.indexOf(":"));
  return `   0: ${address} ${peer}:0000 ${state} 00000000:00000000 00:00000000 00000000     0\n`;
}

const [FOUR, SIX] = ["0100007F:7580", "00000000000000000000000001000000:7580"] as const;

function missing(...sockets: readonly string[]): string[] {
  return missingListeners(WANTED, HEAD + sockets.join("")).map(({ key }) => key);
}

Deno.test("listeners that are there are not missing", () => {
  assertEquals(missing(socket(FOUR), socket(SIX)), []);
});

Deno.test("a listener that is not there is missing, by its address and port", () => {
  assertEquals(missing(socket(FOUR)), ["[::1]:30080"]);
  assertEquals(missing(), ["127.0.0.1:30080", "[::1]:30080"]);
});

Deno.test("a connection is not a listener", () => {
  assertEquals(missing(socket(FOUR, "01"), socket("0100007F:7581"), socket("0200007F:7580")), [
    "127.0.0.1:30080",
    "[::1]:30080",
  ]);
});
