/**
 * Packages of Debian's suites, by an apt of its own: the machine's lists and cache stay as they are.
 *
 * @module
 */
import { execute } from "../../tests/support/command.ts";
import type { Suite } from "./catalog.ts";
import { type Mirrors, mirrorsOf, sourcesList } from "./mirrors.ts";

/** Something cannot be downloaded: no failure of what is tested. */
export class NotAvailable extends Error {
  override name = "NotAvailable";
}

/** The machine types that packages are asked for, as Debian names them. */
export type Architecture = "amd64" | "arm64";

const SOURCES = "/etc/apt";
const LONGEST_MESSAGE = 300;

/** Lists and packages in a folder. */
export class Packages {
  readonly #folder: string;
  readonly #ready = new Map<string, Promise<readonly string[]>>();

  /** @param folder is made where it is not there; what it has already is not downloaded again */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The names of a package and of everything that it depends on.
   *
   * @throws {NotAvailable}
   */
  async dependencies(suite: Suite, name: string, architecture?: Architecture): Promise<string[]> {
    const flags = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
    const args = ["depends", "--recurse", ...flags.map((flag) => `--no-${flag}`), name];
    const text = await this.#apt("apt-cache", { suite, architecture, args });
    return text.split("\n").filter((line) => /^[a-z0-9]/.test(line)).map((line) =>
      line.replace(/:.*$/, "")
    );
  }

  /**
   * Returns where the newest files of packages are.
   *
   * @throws {NotAvailable}
   */
  async files(
    suite: Suite,
    names: readonly string[],
    architecture: Architecture,
  ): Promise<{ readonly uri: string; readonly file: string; readonly sha256: string }[]> {
    const asked = { suite, architecture, args: ["download", "--print-uris", ...names] };
    const uris = await this.#apt("apt-get", asked);
    return [...uris.matchAll(/^'([^']*)' (\S+_\S+\.deb) \d+ SHA256:(\w+)/gm)].map(
      ([, uri = "", file = "", sha256 = ""]) => ({ uri, file, sha256 }),
    );
  }

  /**
   * Downloads and unpacks packages into a folder named after the first one's file.
   *
   * @returns the folder
   * @throws {NotAvailable}
   */
  async unpack(
    suite: Suite,
    names: readonly string[],
    architecture: Architecture = "amd64",
  ): Promise<string> {
    const debs = `${this.#folder}/debs/${suite}-${architecture}`;
    await Deno.mkdir(debs, { recursive: true });
    const files = (await this.files(suite, names, architecture)).map(({ file }) => file);
    const first = files.find((file) => file.startsWith(`${names[0]}_`)) ?? files[0];
    if (first === undefined) throw new NotAvailable(`${suite} has no ${names.join(", ")}`);
    const target = `${this.#folder}/unpacked/${suite}-${first.replace(/\.deb$/, "")}`;
    if (await exists(target)) return target;
    await this.#apt("apt-get", { suite, architecture, args: ["download", ...names], cwd: debs });
    await Deno.remove(`${target}.new`, { recursive: true }).catch(() => {});
    await Deno.mkdir(`${target}.new`, { recursive: true });
    for (const file of files) {
      await must(["dpkg", "-x", `${debs}/${file}`, `${target}.new`], `${file} cannot be unpacked`);
      await Deno.remove(`${debs}/${file}`);
    }
    await Deno.rename(`${target}.new`, target);
    return target;
  }

  async #apt(program: string, options: {
    readonly suite: Suite;
    readonly architecture?: Architecture | undefined;
    readonly args: readonly string[];
    readonly cwd?: string;
  }): Promise<string> {
    const { suite, architecture = "amd64", args, cwd } = options;
    const key = `${suite}-${architecture}`;
    let ready = this.#ready.get(key);
    if (ready === undefined) this.#ready.set(key, ready = this.#update(suite, architecture));
    return await must([program, ...await ready, ...args], `${suite}: ${args.at(-1)}`, cwd);
  }

  /** Fetches a suite's lists. @returns the options that every apt program needs for them */
  async #update(suite: Suite, architecture: Architecture): Promise<readonly string[]> {
    const folder = `${this.#folder}/apt/${suite}-${architecture}`;
    await Deno.mkdir(`${folder}/lists/partial`, { recursive: true });
    await Deno.mkdir(`${folder}/cache/archives/partial`, { recursive: true });
    await Deno.writeTextFile(`${folder}/sources.list`, sourcesList(suite, await readMirrors()));
    await Deno.writeTextFile(`${folder}/status`, "");
    const options = [
      `Dir::Etc::SourceList=${folder}/sources.list`,
      "Dir::Etc::SourceParts=/dev/null",
      `Dir::State=${folder}`,
      `Dir::State::Lists=${folder}/lists`,
      `Dir::State::status=${folder}/status`,
      `Dir::Cache=${folder}/cache`,
      `APT::Architecture=${architecture}`,
      `APT::Architectures=${architecture}`,
      `APT::Sandbox::User=${Deno.uid() === 0 ? "root" : ""}`,
      "Acquire::Languages=none",
      "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
      "Acquire::Retries=2",
      "Acquire::http::Timeout=30",
    ].flatMap((option) => ["-o", option]);
    const update = ["apt-get", ...options, "update", "--error-on=any"];
    await must(update, `the packages of ${suite} cannot be listed`);
    return options;
  }
}

/** The program that Debian has under `name`, below a folder with unpacked packages. */
export async function findProgram(folder: string, name: string): Promise<string> {
  for (const place of ["usr/sbin", "sbin", "usr/bin", "bin"]) {
    const path = `${folder}/${place}/${name}`;
    if (await exists(path)) return path;
  }
  throw new NotAvailable(`${folder} has no ${name}`);
}

/** The machine's own sources of apt. */
async function readMirrors(): Promise<Mirrors> {
  const paths = [`${SOURCES}/sources.list`];
  try {
    for await (const { name } of Deno.readDir(`${SOURCES}/sources.list.d`)) {
      if (/\.(?:list|sources)$/.test(name)) paths.push(`${SOURCES}/sources.list.d/${name}`);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return mirrorsOf(
    await Promise.all(paths.map((path) => Deno.readTextFile(path).catch(() => ""))),
  );
}

/** Returns true if a file or folder is there. */
export async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** @throws {NotAvailable} where the program fails or is not there */
async function must(argv: readonly string[], what: string, cwd?: string): Promise<string> {
  const options = { env: { LC_ALL: "C" }, ...(cwd !== undefined && { cwd }) };
  const result = await execute(argv, options).catch((cause) => {
    throw new NotAvailable(`${what}: ${argv[0]} cannot be run`, { cause });
  });
  if (result.code === 0) return result.stdout;
  const lines = result.stderr.split("\n").filter((line) => /^(?:E|W):|error/i.test(line));
  const why = (lines.length > 0 ? lines.join(" ") : result.stderr).trim().slice(0, LONGEST_MESSAGE);
  throw new NotAvailable(`${what}: ${why}`);
}
