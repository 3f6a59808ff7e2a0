import { assertEquals } from "@std/assert";
import { runWithFewDescriptors } from "../support/few_descriptors.ts";

Deno.test("idle connections of all ports end without a free descriptor", async () => {
  const module = new URL("../../lib/system/http_servers.ts", import.meta.url).href;
  const script = `
    import { httpListen } from "${module}";
    const warnings = [];
    const listen = httpListen({
      clock: { monotonic: () => performance.now(), sleep },
      logger: { warn: (message) => warnings.push(message) },
    });
    const answer = { status: 200, headers: {}, body: "hello" };
    const ports = [1, 2].map(() => listen({ hostname: "127.0.0.1", port: 0 }, () => answer).port);
    const connect = (port) => Deno.connect({ hostname: "127.0.0.1", port });
    const get = async (port) => {
      using conn = await connect(port);
      await conn.write(new TextEncoder().encode("GET / HTTP/1.0\\r\\n\\r\\n"));
      return await conn.read(new Uint8Array(99)) > 0;
    };
    const idle = await Promise.all(Array.from({ length: 8 }, () => connect(ports[0])));
    await get(ports[0]); // Those before it are accepted.
    useUp();
    held.pop().close();
    const ended = idle.map((conn) => conn.read(new Uint8Array(1)).catch(() => null));
    await connect(ports[1]).then((conn) => conn.close(), () => {});
    console.log(await Promise.all(ended));
    for (const conn of idle) conn.close();
    for (const port of ports) while (!await get(port).catch(() => false)) await sleep(20);
    console.log(warnings);
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  const nulls = "null, null, null, null";
  const warning = "cannot accept a connection; ended all connections to the HTTP ports";
  assertEquals(
    stdout.replace(/\s+/g, " ").trim(),
    `[ ${nulls}, ${nulls} ] [ "${warning}" ]`,
    stderr,
  );
});

/** Tries to listen at a port for two seconds, and prints whether it could. */
const THIEF = `
  const port = Number(Deno.args[0]);
  console.log("trying");
  let result = "never";
  for (const end = performance.now() + 2000; performance.now() < end;) {
    try {
      Deno.listen({ hostname: "127.0.0.1", port });
      result = "taken";
    } catch { /* in use */ }
  }
  console.log(result);
  Deno.exit();
`;

Deno.test("no other program gets the port while no descriptor is free", async () => {
  const module = new URL("../../lib/system/http_servers.ts", import.meta.url).href;
  const script = `
    import { httpListen } from "${module}";
    let warnings = 0;
    const listen = httpListen({
      clock: { monotonic: () => performance.now(), sleep },
      logger: { warn: () => warnings++ },
    });
    const address = { hostname: "127.0.0.1", port: 0 };
    address.port = listen(address, () => ({ status: 200, headers: {}, body: "hello" })).port;
    const thief = new Deno.Command(Deno.execPath(), {
      args: ["eval", \`${THIEF}\`, String(address.port)],
      stdout: "piped",
    }).spawn();
    const lines = thief.stdout.pipeThrough(new TextDecoderStream()).getReader();
    await lines.read(); // It has begun.
    useUp();
    held.pop().close();
    void Deno.connect(address).catch(() => {});
    // A flood takes each descriptor that becomes free.
    for (const end = performance.now() + 1_000; performance.now() < end; await sleep(1)) {
      if (warnings > 0) useUp();
    }
    console.log((await lines.read()).value.trim(), warnings);
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "never 1\n", stderr);
});

Deno.test("the local socket comes back when descriptors are free again", async () => {
  const module = new URL("../../lib/system/socket.ts", import.meta.url).href;
  const script = `
    import { askDaemon, serveSocket } from "${module}";
    const path = (await Deno.makeTempDir()) + "/s.sock";
    const warnings = [];
    serveSocket({
      path,
      routes: { "GET /v1/status": () => "here" },
      clock: { sleep: (time) => sleep(Math.min(time, 50)) },
      logger: { warn: (_, { reason }) => warnings.push(reason) },
      signal: new AbortController().signal,
    });
    const ask = () => askDaemon(path, { method: "GET", path: "/v1/status" });
    while (await ask().catch(() => "") !== "here") await sleep(20);
    for (useUp(); warnings.length === 0; useUp()) {
      held.pop().close();
      Deno.connect({ transport: "unix", path }).catch(() => {});
      await sleep(20);
    }
    for (const file of held) file.close();
    for (let i = 0; i < 200 && await ask().catch(() => "") !== "here"; i++) await sleep(20);
    console.log(await ask(), warnings.every((each) => /Too many open files/.test(each)));
  `;
  const { stdout, stderr } = await runWithFewDescriptors(script);
  assertEquals(stdout, "here true\n", stderr);
});
