/**
 * A memory cgroup of the bench's own, version 2 or 1, whichever the machine has.
 *
 * @module
 */

/** The kernel's folder of cgroups. */
const ROOT = "/sys/fs/cgroup";

/** Names of its files. */
const FILES = {
  1: {
    limit: "memory.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
  },
  2: { limit: "memory.max", peak: "memory.peak", events: "memory.events" },
} as const;

/** A group with a limit; it goes when disposed. */
export class MemoryGroup implements AsyncDisposable {
  private constructor(readonly version: 1 | 2, private readonly folder: string) {}

  /**
   * Makes one.
   *
   * @param limit bytes
   * @returns why there can be none, where that is so
   */
  static async create(limit: number): Promise<MemoryGroup | string> {
    const name = `signpost-bench-${crypto.randomUUID()}`;
    try {
      const version = await hierarchy();
      const folder = `${version === 2 ? ROOT : `${ROOT}/memory`}/${name}`;
      await Deno.mkdir(folder);
      const group = new MemoryGroup(version, folder);
      await Deno.writeTextFile(`${folder}/${FILES[version].limit}`, `${limit}`);
      return group;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /** A process that writes its id there is in it, with the children that it has later. */
  get processes(): string {
    return `${this.folder}/cgroup.procs`;
  }

  /** The most bytes that its processes had together. */
  async peak(): Promise<number> {
    return Number(await Deno.readTextFile(`${this.folder}/${FILES[this.version].peak}`));
  }

  /** Processes that the kernel killed for it. */
  async killed(): Promise<number> {
    const text = await Deno.readTextFile(`${this.folder}/${FILES[this.version].events}`);
    return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
  }

  /** Its processes have ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (let tries = 0; tries < 50; tries++) {
      try {
        return await Deno.remove(this.folder);
      } catch {
        // The kernel takes a moment to see the last process go.
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }
}

async function hierarchy(): Promise<1 | 2> {
  const controllers = await Deno.readTextFile(`${ROOT}/cgroup.controllers`).catch(() => "");
  if (controllers.split(/\s+/).includes("memory")) {
    await Deno.writeTextFile(`${ROOT}/cgroup.subtree_control`, "+memory");
    return 2;
  }
  await Deno.stat(`${ROOT}/memory/memory.limit_in_bytes`);
  return 1;
}

/** `MemoryMax=` of the unit, in bytes. */
export async function unitMemoryMax(): Promise<number> {
  const text = await Deno.readTextFile(new URL("../../systemd/signpost.service", import.meta.url));
  const [, number, unit = ""] = /^MemoryMax=(\d+)([KMG]?)$/m.exec(text) ?? [];
  return Number(number) * 1024 ** ["", "K", "M", "G"].indexOf(unit);
}
