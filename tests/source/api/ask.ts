/**
 * Asks a server once, as the watches do, in a process of its own: what a process trusts is decided
 * once. Arguments: URL, file of the only authority, server name, `proxies` to use those of the
 * environment. Prints the status, or the error.
 */
import { proxiesIn } from "../../../lib/source/api/access/access_source.ts";
import { createHttpClient } from "../../../lib/system/http_client.ts";

if (import.meta.main) {
  const [url = "", authority = "", serverName = "", which = ""] = Deno.args;
  const environment = (name: string) => Deno.env.get(name);
  const http = createHttpClient({ proxies: which === "proxies" ? proxiesIn(environment) : {} });
  const said = await http.request({
    method: "GET",
    url: new URL(url),
    headers: { authorization: "Bearer secret" },
    tls: {
      authorities: [await Deno.readTextFile(authority)],
      certificate: undefined,
      key: undefined,
      serverName: serverName || undefined,
      verify: true,
    },
    signal: new AbortController().signal,
  }).then(({ status }) => `${status}`, (error) => `${error}`);
  await Deno.stdout.write(new TextEncoder().encode(said));
  Deno.exit(0);
}
