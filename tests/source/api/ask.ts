/**
 * Asks a server once, as the watches do, in a process of its own: what a process trusts is decided
 * once. Arguments: URL, file of the only authority. Prints the status, or the error.
 *
 * @module
 */
import { createHttpClient } from "../../../lib/system/http/client.ts";

if (import.meta.main) {
  const [url = "", authority = ""] = Deno.args;
  const http = createHttpClient();
  const said = await http.request({
    method: "GET",
    url: new URL(url),
    headers: {},
    tls: {
      authorities: [await Deno.readTextFile(authority)],
      certificate: undefined,
      key: undefined,
      serverName: undefined,
      verify: true,
    },
    signal: new AbortController().signal,
  }).then(({ status }) => `${status}`, (error) => `${error}`);
  await Deno.stdout.write(new TextEncoder().encode(said));
  Deno.exit(0);
}
