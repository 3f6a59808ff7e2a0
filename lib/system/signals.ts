/**
 * Adapter: the signals that end the process.
 *
 * @module
 */

/** Aborts at the first SIGTERM or SIGINT. */
export function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(name, () => controller.abort(name));
  }
  return controller.signal;
}

/** Calls back at each SIGHUP. @returns ends it */
export function onReload(callback: () => Promise<void>): () => void {
  const listener = () => void callback();
  Deno.addSignalListener("SIGHUP", listener);
  return () => Deno.removeSignalListener("SIGHUP", listener);
}
