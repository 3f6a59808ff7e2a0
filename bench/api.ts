/**
 * The bench's end of the API server process.
 *
 * @module
 */
import type { ApiObject } from "../tests/support/api_store.ts";

/** How big a cluster the server holds, and where it runs. */
export interface ApiOptions {
  readonly services: number;
  readonly endpoints: number;
  /** Network namespace, by the name that `ip netns` knows. */
  readonly namespace: string;
  /** An existing folder for certificates and kubeconfig. */
  readonly folder: string;
}

/** 100,000 Services of 10 endpoints are more than V8 allows by itself. */
const HEAP = "--v8-flags=--max-old-space-size=12000";

/** A running API server. */
export class Api implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #encoder = new TextEncoder();
  /** Path of a kubeconfig for it. */
  readonly kubeconfig: string;

  private constructor(child: Deno.ChildProcess, kubeconfig: string) {
    this.#child = child;
    this.#writer = child.stdin.getWriter();
    this.kubeconfig = kubeconfig;
  }

  /** Starts the process and waits until it serves. */
  static async start(options: ApiOptions): Promise<Api> {
    const { services, endpoints, namespace, folder } = options;
    const program = new URL("api_process.ts", import.meta.url).pathname;
    const argv = ["run", "--quiet", "-A", HEAP, program, folder, `${services}`, `${endpoints}`];
    const child = new Deno.Command("ip", {
      args: ["netns", "exec", namespace, Deno.execPath(), ...argv],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const api = new Api(child, `${folder}/kubeconfig`);
    const reader = child.stdout.getReader();
    const { done } = await reader.read();
    if (done) throw new Error("the API server did not start");
    reader.releaseLock();
    return api;
  }

  /** Adds or changes an object. */
  put(object: ApiObject): Promise<void> {
    return this.#writer.write(this.#encoder.encode(`${JSON.stringify(object)}\n`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer.close();
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}
