/** The input of programs that tests stand in for. */
import type { ProcessInput } from "../../lib/model/ports/ports.ts";

/** Gathers what a program is given to read. */
export async function wholeInput(input: ProcessInput): Promise<string> {
  return typeof input === "string" ? input : (await Array.fromAsync(input)).join("");
}
