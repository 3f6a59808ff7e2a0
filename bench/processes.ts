/**
 * Reads the memory and CPU time of a process from the kernel (proc(5)).
 *
 * @module
 */

/** Memory in bytes. */
interface Memory {
  /** Resident set: all pages in RAM, those shared with other processes included. */
  readonly rss: number;
  /** Pages that are no part of a file. */
  readonly anonymous: number;
  /** Resident sets of the programs that it runs, such as `nft monitor`. */
  readonly children: number;
}

/** The memory of a process. */
export async function readMemory(pid: number): Promise<Memory> {
  const children = await childrenOf(pid);
  const resident = await Promise.all(
    children.map((child) => readOwn(child).then(({ rss }) => rss, () => 0)),
  );
  return { ...await readOwn(pid), children: resident.reduce((sum, rss) => sum + rss, 0) };
}

async function readOwn(pid: number): Promise<Omit<Memory, "children">> {
  const text = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`);
  const field = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) * 1024;
  return { rss: field("Rss"), anonymous: field("Anonymous") };
}

/** Kernel ticks in a second; 100 on every Linux that Deno runs on. */
const TICKS = 100;

/** CPU time in seconds, or parts of a core. */
export interface Cpu {
  readonly own: number;
  /** Of the programs that it ran and runs. */
  readonly children: number;
}

/** Seconds of CPU time of a process, of its children that have ended, and of those that have not. */
export async function readCpuSeconds(pid: number): Promise<number> {
  const { own, children } = await readCpu(pid);
  return own + children;
}

/** The same, apart. */
export async function readCpu(pid: number): Promise<Cpu> {
  const [user = 0, system = 0, ...ended] = await readTimes(pid);
  let children = ended.reduce((sum, seconds) => sum + seconds, 0);
  for (const child of await childrenOf(pid)) {
    children += await readCpuSeconds(child).catch(() => 0);
  }
  return { own: user + system, children };
}

/** The ids of the processes that a process has started and that run. */
export async function childrenOf(pid: number): Promise<number[]> {
  const texts = await Array.fromAsync(
    Deno.readDir(`/proc/${pid}/task`),
    ({ name }) => Deno.readTextFile(`/proc/${pid}/task/${name}/children`).catch(() => ""),
  );
  return texts.flatMap((text) => text.split(" ")).filter((text) => text.trim() !== "").map(Number);
}

/** Seconds in user mode and in the kernel: its own, and those of children that it has waited for. */
async function readTimes(pid: number): Promise<number[]> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  // The program's name, in parentheses, may hold anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).map((field) => Number(field) / TICKS);
}
