/**
 * From the start of the process to its first HTTP request.
 *
 * @module
 */
import { Daemon } from "../daemon.ts";
import type { Stage } from "../stage.ts";
import { median } from "../statistics.ts";

/** Milliseconds, the median of so many starts. */
export async function measureFirstRequest(stage: Stage, runs: number): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < runs; i++) times.push(await startOnce(stage));
  return median(times);
}

/** A server stands in for the API server that only looks at the clock. */
async function startOnce(stage: Stage): Promise<number> {
  const { libc, namespace, folder } = stage;
  const read = (name: string) => Deno.readTextFileSync(`${folder}/${name}`);
  const options = {
    hostname: "127.0.0.1",
    port: 0,
    cert: read("server.crt"),
    key: read("server.key"),
  };
  using listener = libc.inside(namespace, () => Deno.listenTls(options));
  const kubeconfig = `${folder}/kubeconfig-first-request`;
  const address = `https://127.0.0.1:${listener.addr.port}`;
  await Deno.writeTextFile(
    kubeconfig,
    read("kubeconfig").replace(/https:\/\/127\.0\.0\.1:\d+/, address),
  );
  await using daemon = Daemon.start({ namespace, kubeconfig });
  const started = await daemon.started();
  using connection = await Promise.race([listener.accept(), daemon.never()]);
  await connection.read(new Uint8Array(1024));
  return performance.now() - started;
}
