/** Makes the faults of a soak. */
import type { Fault } from "../support/api_faults.ts";
import { execute } from "../support/command.ts";
import type { Random } from "../support/random.ts";
import type { Signpost } from "../support/signpost.ts";
import { NODE } from "../support/topology.ts";
import type { Stage } from "./stage.ts";

/** An `nft` that fails now and then while a file is there; to be first in signpost's PATH. */
const FAILING_NFT = `#!/bin/sh
if [ -e "$0.fails" ] && [ $(od -An -N1 -tu1 /dev/urandom) -lt 13 ]; then
  echo "Error: Could not process rule: Device or resource busy" >&2
  exit 1
fi
PATH=\${PATH#*:}
exec nft "$@"
`;

const API_FAULTS: readonly Fault[] = [
  { type: "status", status: 401 },
  { type: "status", status: 403 },
  { type: "status", status: 429, retryAfter: 1 },
  { type: "status", status: 500 },
  { type: "garbage" },
  { type: "halfLine" },
  { type: "cut" },
  { type: "close" },
  { type: "errorEvent", status: 410 },
];

/** Breaks something, and remembers what and how often. */
export class Faults {
  readonly counts = new Map<string, number>();
  readonly #stage: Stage;
  readonly #random: Random;
  readonly #shim: string;
  #away: ReturnType<typeof setTimeout> | undefined;

  private constructor(stage: Stage, random: Random, shim: string) {
    this.#stage = stage;
    this.#random = random;
    this.#shim = shim;
  }

  /** Puts a failing `nft` into the stage's folder. */
  static async create(stage: Stage, random: Random): Promise<Faults> {
    const folder = `${stage.folder}/bin`;
    await Deno.mkdir(folder);
    await Deno.writeTextFile(`${folder}/nft`, FAILING_NFT, { mode: 0o755 });
    return new Faults(stage, random, folder);
  }

  /** The environment of a daemon that is to meet failing programs. */
  get env(): Record<string, string> {
    return { PATH: `${this.#shim}:${Deno.env.get("PATH")}` };
  }

  /** From now on `nft` fails now and then. */
  async begin(): Promise<void> {
    await Deno.writeTextFile(`${this.#shim}/nft.fails`, "");
  }

  /** Breaks one random thing. */
  async strike(signpost: Signpost): Promise<void> {
    const { api } = this.#stage;
    const all: Readonly<Record<string, () => unknown>> = {
      "API restarts": () => this.#away === undefined ? api.restart() : undefined,
      "API away for seconds": () => this.#goAway(),
      "streams cut": () => api.dropStreams(),
      "streams ended": () => api.dropStreams({ end: true }),
      "history forgotten": () => api.compact(),
      "wrong answers": () => this.#answerWrongly(),
      "garbage on streams": () => api.sendRaw('{"type":\u0007}\n'),
      "ruleset flushed": () => this.#nft("flush ruleset"),
      "table deleted": () => this.#nft("delete table inet signpost"),
      "map flushed": () => this.#nft("flush map inet signpost services4"),
      "chain flushed": () => this.#nft("flush chain inet signpost services"),
      "nft monitor killed": () => killMonitor(signpost),
    };
    const names = Object.keys(all);
    const name = names[this.#random(names.length)] ?? "";
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    await all[name]?.();
  }

  /** Ends all faults. */
  async end(): Promise<void> {
    await Deno.remove(`${this.#shim}/nft.fails`);
    this.#stage.api.faults.clear();
    if (this.#away === undefined) return;
    clearTimeout(this.#away);
    await this.#comeBack();
  }

  async #goAway(): Promise<void> {
    if (this.#away !== undefined) return;
    await this.#stage.api.stop();
    this.#away = setTimeout(() => void this.#comeBack(), 1_000 + this.#random(4_000));
  }

  async #comeBack(): Promise<void> {
    this.#away = undefined;
    await this.#stage.api.start();
  }

  #answerWrongly(): void {
    const fault = API_FAULTS[this.#random(API_FAULTS.length)];
    if (fault === undefined) return;
    this.#stage.api.faults.add({ ...fault, count: 1 + this.#random(4) });
    this.#stage.api.dropStreams();
  }

  /** Runs a command of another program, which may come when no table is there. */
  async #nft(command: string): Promise<void> {
    const namespace = this.#stage.network.namespaceOf(NODE);
    await execute(["ip", "netns", "exec", namespace, "nft", ...command.split(" ")]);
  }
}

/** Kills the daemon's `nft monitor`. */
export async function killMonitor(
  { pid }: Signpost,
  signal: "SIGKILL" | "SIGSTOP" = "SIGKILL",
): Promise<void> {
  for (const child of (await childrenOf(pid)).split(" ").filter((each) => each !== "")) {
    const words = await Deno.readTextFile(`/proc/${child}/cmdline`).catch(() => "");
    if (words.split("\0").includes("monitor")) Deno.kill(Number(child), signal);
  }
}

/** The children of all threads of a process. */
async function childrenOf(pid: number): Promise<string> {
  const tasks = await Array.fromAsync(Deno.readDir(`/proc/${pid}/task`));
  const lists = tasks.map(({ name }) =>
    Deno.readTextFile(`/proc/${pid}/task/${name}/children`).catch(() => "")
  );
  return (await Promise.all(lists)).join(" ");
}
