import { assertEquals } from "@std/assert";
import type { ApiAccess } from "../../../../lib/source/api/access/access.ts";
import { accessWarnings } from "../../../../lib/source/api/access/access_source.ts";
import { ANONYMOUS } from "../fakes.ts";

const TOKEN = { type: "inline", text: "s3cret", origin: "kubeconfig: token" } as const;

function warnings(server: string, access: Partial<ApiAccess>): readonly string[] {
  return accessWarnings({ ...ANONYMOUS, server: new URL(server), ...access });
}

Deno.test("a server that is not verified is warned of", () => {
  const [line, ...more] = warnings("https://192.0.2.1:6443", { verify: false, token: TOKEN });
  const start =
    "insecure-skip-tls-verify is set: any machine that answers at https://192.0.2.1:6443 gets";
  assertEquals(line?.startsWith(start), true, line);
  assertEquals(more, []);
});

Deno.test("credentials without TLS are warned of, unless they stay on this machine", () => {
  const secret = { token: TOKEN };
  for (
    const server of ["http://192.0.2.1:8080", "http://[2001:db8::1]:80", "http://api.example"]
  ) {
    const [line] = warnings(server, secret);
    assertEquals(
      line?.startsWith(`the credentials go to ${new URL(server).origin} `),
      true,
      server,
    );
    assertEquals(line?.includes(TOKEN.text), false);
  }
  for (const server of ["http://127.0.0.1:8080", "http://[::1]:8001", "http://localhost:8001"]) {
    assertEquals(warnings(server, secret), [], server);
  }
});

Deno.test("what is safe is not warned of", () => {
  assertEquals(warnings("https://192.0.2.1:6443", { token: TOKEN }), []);
  assertEquals(warnings("http://192.0.2.1:8080", {}), []);
});
