/**
 * Makes the place of a measurement: a namespace with its own kernel tables, and an API server in it.
 *
 * @module
 */
import { Libc } from "../tests/support/libc.ts";
import { Namespaces } from "../tests/support/namespaces.ts";
import { Api } from "./api.ts";

/** How big the cluster is. */
export interface StageOptions {
  readonly services: number;
  /** Endpoints of each Service. */
  readonly endpoints: number;
}

/** The output of a program that has ended. */
export interface Finished {
  readonly stdout: string;
  readonly milliseconds: number;
}

/** A namespace, an API server and a folder for files. */
export class Stage implements AsyncDisposable {
  private constructor(
    readonly options: StageOptions,
    readonly namespace: string,
    readonly folder: string,
    readonly api: Api,
    private readonly parts: {
      readonly inside: <T>(body: () => T) => T;
      readonly resources: AsyncDisposableStack;
    },
  ) {}

  /** Sets everything up; the API server is ready. */
  static async create(options: StageOptions): Promise<Stage> {
    await using resources = new AsyncDisposableStack();
    const libc = resources.use(new Libc());
    const namespaces = resources.use(await Namespaces.create(libc, ["node"]));
    await namespaces.ip("node", ["link set lo up"]);
    const namespace = namespaces.fullName("node");
    const folder = await Deno.makeTempDir({ prefix: "signpost-bench-" });
    resources.defer(() => Deno.remove(folder, { recursive: true }));
    const api = resources.use(await Api.start({ ...options, namespace, folder }));
    const inside = <T>(body: () => T) => libc.inside(namespaces.handle("node"), body);
    return new Stage(options, namespace, folder, api, { inside, resources: resources.move() });
  }

  /** Does something synchronous in the namespace. */
  inside<T>(body: () => T): T {
    return this.parts.inside(body);
  }

  /**
   * Runs a program in the namespace, with no other program between.
   *
   * @returns its standard output, and the milliseconds from its start to its end
   * @throws {Error} where it fails
   */
  async run(argv: readonly [string, ...string[]], stdin = ""): Promise<Finished> {
    const [program, ...args] = argv;
    const start = performance.now();
    const child = this.inside(() =>
      new Deno.Command(program, { args, stdin: "piped", stdout: "piped", stderr: "piped" }).spawn()
    );
    const writer = child.stdin.getWriter();
    const fed = writer.write(new TextEncoder().encode(stdin)).then(() => writer.close());
    const [{ success, stdout, stderr }] = await Promise.all([child.output(), fed]);
    const milliseconds = performance.now() - start;
    const decoder = new TextDecoder();
    if (!success) throw new Error(`${argv.join(" ")}: ${decoder.decode(stderr).slice(0, 500)}`);
    return { stdout: decoder.decode(stdout), milliseconds };
  }

  /** Empties the kernel's tables. */
  async flush(): Promise<void> {
    await this.run(["nft", "flush", "ruleset"]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.parts.resources.disposeAsync();
  }
}
