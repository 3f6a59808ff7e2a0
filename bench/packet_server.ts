/**
 * Takes connections, as a process of its own in the namespace of the backends; it
 * runs until it is killed. Argument: port. Prints a line when it listens.
 *
 * @module
 */
import { Libc } from "./libc.ts";

/** Connections that stay open, so that it is the client that ends them. */
const OPEN = 64;

if (import.meta.main) {
  const libc = new Libc();
  const server = libc.listen("0.0.0.0", Number(Deno.args[0]));
  await Deno.stdout.write(new TextEncoder().encode("listening\n"));
  const open: number[] = [];
  for (;;) {
    open.push(libc.accept(server));
    const oldest = open.length > OPEN ? open.shift() : undefined;
    if (oldest !== undefined) libc.close(oldest);
  }
}
