/**
 * `deno task fuzz`: random and hostile objects, watch streams and files through the decoder, the policy
 * and the scripts of both modes. Nothing may crash, no line may stand in a script that was not meant,
 * and no other Service may lose a rule.
 */
import { randomNumbers } from "../support/random.ts";
import { fuzzFile } from "./files.ts";
import { fuzzObjects } from "./objects.ts";
import { fuzzStream } from "./streams.ts";

/** How much is tried. */
export interface FuzzOptions {
  /** The first input's seed; input number n has this seed plus n. */
  readonly seed: number;
  /** Most inputs. */
  readonly runs: number;
  /** Most seconds. */
  readonly seconds: number;
  /** Is told now and then how many inputs there were. */
  readonly progress?: (runs: number) => void;
  /** Works on the seed of one input; tests have a function of their own. */
  readonly input?: (seed: number) => Promise<void>;
}

/** An input that did what none may do. */
export class FuzzError extends Error {
  override name = "FuzzError";
}

/**
 * Tries inputs until there were enough of them, or the time is over.
 *
 * @returns how many were tried
 * @throws {FuzzError} at the first input that fails, with the seed that repeats it alone
 */
export async function fuzz(
  { seed, runs, seconds, progress, input = fuzzOne }: FuzzOptions,
): Promise<number> {
  const end = performance.now() + seconds * 1000;
  for (let run = 0; run < runs; run++) {
    if (run % 1000 === 0) progress?.(run);
    if (performance.now() > end) return run;
    try {
      await input(seed + run);
    } catch (cause) {
      const again = `deno task fuzz --seed ${seed + run} --runs 1`;
      const what = cause instanceof Error ? cause.message : String(cause);
      throw new FuzzError(`input ${run}: ${what}\nagain: ${again}`, { cause });
    }
  }
  return runs;
}

async function fuzzOne(seed: number): Promise<void> {
  const random = randomNumbers(seed);
  switch (random(4)) {
    case 0:
      return await fuzzStream(random);
    case 1:
      return await fuzzFile(random);
    default:
      return fuzzObjects(random);
  }
}

const USAGE = "deno task fuzz [--runs N] [--seconds N] [--seed N]";
const DEFAULTS = { runs: 10_000, seconds: 300, seed: Date.now() % 1_000_000_000 };

/** @throws {FuzzError} at what is no number of ours */
function readArguments(args: readonly string[]): FuzzOptions {
  // With seconds, the default number of inputs is not a bound.
  const runs = args.includes("--seconds") ? Infinity : DEFAULTS.runs;
  const options: Record<string, number> = { ...DEFAULTS, runs };
  for (let at = 0; at < args.length; at += 2) {
    const name = args[at]?.replace(/^--/, "") ?? "";
    const value = Number(args[at + 1]);
    if (!(name in DEFAULTS) || !Number.isSafeInteger(value) || value < 0) {
      throw new FuzzError(`${args[at]} ${args[at + 1] ?? ""}: usage: ${USAGE}`);
    }
    options[name] = value;
  }
  return { ...DEFAULTS, ...options };
}

async function main(): Promise<number> {
  const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  try {
    const options = readArguments(Deno.args);
    say(`seed ${options.seed}`);
    const progress = (runs: number) => runs % 10_000 === 0 && runs > 0 && say(`${runs} inputs`);
    const runs = await fuzz({ ...options, progress });
    say(`${runs} inputs passed`);
    return 0;
  } catch (error) {
    if (!(error instanceof FuzzError)) throw error;
    say(error.message);
    return 1;
  }
}

if (import.meta.main) Deno.exit(await main());
