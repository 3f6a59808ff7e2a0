/**
 * Adapter: ends connections and listeners that may have ended already.
 *
 * @module
 */

/** Closes a connection or listener that may be closed. */
export function tryToClose(connection: { close(): void }): void {
  try {
    connection.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
