/**
 * Adapter: ends connections that may have ended already.
 *
 * @module
 */

/** Closes a connection that may be closed. */
export function tryToClose(connection: Deno.Conn): void {
  try {
    connection.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
