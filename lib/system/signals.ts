/**
 * Adapter: the signals that end the process, or have the configuration read again.
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

/** Calls back at each SIGHUP. From the call on, a SIGHUP does not end the process. */
export function onReload(callback: () => void): void {
  Deno.addSignalListener("SIGHUP", callback);
}
