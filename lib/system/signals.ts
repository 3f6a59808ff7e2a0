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

/** Does nothing, and stays: without any listener, the next SIGHUP would end the process. */
const ignore = () => {};

/**
 * Calls back at each SIGHUP. From the first call on, a SIGHUP does not end the process.
 *
 * @returns ends it
 */
export function onReload(callback: () => Promise<void>): () => void {
  const listener = () => void callback();
  Deno.addSignalListener("SIGHUP", ignore);
  Deno.addSignalListener("SIGHUP", listener);
  return () => Deno.removeSignalListener("SIGHUP", listener);
}
