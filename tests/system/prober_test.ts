import { assertEquals, assertRejects } from "@std/assert";
import { ask } from "../../lib/system/prober.ts";
import { makeCertificates } from "../support/certificates.ts";
import { makeFolder } from "../support/folder.ts";

const SERVFAIL = 2;
const NXDOMAIN = 3;

function answerTo(query: Uint8Array, code: number): Uint8Array<ArrayBuffer> {
  const answer = Uint8Array.from(query);
  answer[2] = 0x81;
  answer[3] = 0x80 | code;
  return answer;
}

const signal = AbortSignal.any([]);

/** Asks a port of this machine. */
function asked(port: number, protocol: "tcp" | "udp", request: "connect" | "dns" | "readyz") {
  return ask({ address: "127.0.0.1", port, protocol, request }, { timeout: 500, signal });
}

/** Gives the fault of an answer; `""` for a good one. */
const faultOf = (answer: Promise<void>) => answer.then(() => "", ({ message }) => String(message));

/** Opens a DNS server that answers over UDP, from its own port or from another one. */
function serveUdp(code: number, isFromElsewhere = false) {
  const open = () => Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const [socket, other] = [open(), open()];
  const serving = (async () => {
    const [query, from] = await socket.receive();
    // An answer to another query comes before.
    await socket.send(answerTo(new Uint8Array(12), 0), from);
    await (isFromElsewhere ? other : socket).send(answerTo(query, code), from);
  })();
  return {
    port: (socket.addr as Deno.NetAddr).port,
    async [Symbol.asyncDispose]() {
      await serving;
      socket.close();
      other.close();
    },
  };
}

Deno.test("a DNS server that answers over UDP is good, with SERVFAIL it is not", async () => {
  for (const [code, fault] of [[0, ""], [NXDOMAIN, ""], [SERVFAIL, "it answers SERVFAIL to"]]) {
    await using server = serveUdp(Number(code));
    const found = await faultOf(asked(server.port, "udp", "dns"));
    assertEquals(found.slice(0, 22), fault);
  }
});

Deno.test("an answer from another port counts as none", async () => {
  await using server = serveUdp(0, true);
  const error = await assertRejects(() => asked(server.port, "udp", "dns"));
  assertEquals((error as Error).name, "TimeoutError");
});

Deno.test("an API server that refuses the client answers, one that fails does not", async () => {
  await using folder = await makeFolder("prober");
  const { server: { certificate: cert, key } } = await makeCertificates(folder.path);
  for (const [status, fault] of [[200, ""], [401, ""], [500, "it answers 500 to /readyz"]]) {
    await using server = Deno.serve({
      hostname: "127.0.0.1",
      port: 0,
      cert,
      key,
      onListen() {},
    }, ({ url }) => new Response("", { status: url.endsWith("/readyz") ? Number(status) : 404 }));
    assertEquals(await faultOf(asked(server.addr.port, "tcp", "readyz")), fault);
  }
});

Deno.test("a port that nobody listens on refuses, whatever it is asked", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  for (const request of ["connect", "readyz"] as const) {
    const error = await assertRejects(() => asked(port, "tcp", request));
    assertEquals((error as { readonly code?: string }).code, "ECONNREFUSED", request);
  }
});

Deno.test("a program that accepts and says nothing does not answer in time", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const error = await assertRejects(() => asked(port, "tcp", "readyz"));
  assertEquals((error as Error).name, "TimeoutError");
});
