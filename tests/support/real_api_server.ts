/** Kubernetes' own API server with an etcd of its own, on loopback ports of this machine. */
import type { Certificates } from "./certificates.ts";
import { execute } from "./command.ts";
import { eventually } from "./eventually.ts";
import type { ApiObject } from "./api_store.ts";

const COLLECTIONS: Readonly<Record<string, string>> = {
  Namespace: "/api/v1/namespaces",
  Node: "/api/v1/nodes",
  Service: "/api/v1/namespaces/shop/services",
  EndpointSlice: "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
};

/** Milliseconds: an API server makes its own objects first. */
const START = 120_000;

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** A running API server with RBAC; ended when disposed. */
export class RealApiServer implements AsyncDisposable {
  readonly #client: Deno.HttpClient;

  private constructor(
    readonly port: number,
    private readonly certificates: Certificates,
    private readonly resources: AsyncDisposableStack,
  ) {
    this.#client = Deno.createHttpClient({ caCerts: [certificates.authority] });
    resources.defer(() => this.#client.close());
  }

  /** @param program the path of a kube-apiserver */
  static async start(program: string, certificates: Certificates): Promise<RealApiServer> {
    await using resources = new AsyncDisposableStack();
    const { folder } = certificates;
    const [port, clients, peers] = [freePort(), freePort(), freePort()];
    const etcd = `http://127.0.0.1:${clients}`;
    const peer = `http://127.0.0.1:${peers}`;
    await Deno.writeTextFile(
      `${folder}/tokens`,
      "admin,admin,1,system:masters\nproxy,system:kube-proxy,2\n",
    );
    start(resources, ["etcd", "--data-dir", `${folder}/etcd`], {
      "listen-client-urls": etcd,
      "advertise-client-urls": etcd,
      "listen-peer-urls": peer,
      "initial-advertise-peer-urls": peer,
      "initial-cluster": `default=${peer}`,
    });
    start(resources, [program], {
      "etcd-servers": etcd,
      "bind-address": "127.0.0.1",
      "secure-port": String(port),
      "tls-cert-file": `${folder}/server.crt`,
      "tls-private-key-file": `${folder}/server.key`,
      "service-account-issuer": "https://test",
      "service-account-key-file": `${folder}/server.crt`,
      "service-account-signing-key-file": `${folder}/server.key`,
      "service-cluster-ip-range": "10.96.0.0/16",
      "authorization-mode": "RBAC",
      "token-auth-file": `${folder}/tokens`,
      "endpoint-reconciler-type": "none",
    });
    const server = new RealApiServer(port, certificates, resources.move());
    try {
      await eventually("the API server is ready", async () => {
        const { status } = await server.request("GET", "/readyz").catch(() => ({ status: 0 }));
        return status === 200;
      }, { deadline: START });
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** The kubeconfig of kube-proxy's own user, who has the role `system:node-proxier`. */
  kubeconfig(): string {
    return JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "test",
      clusters: [{
        name: "test",
        cluster: {
          server: `https://127.0.0.1:${this.port}`,
          "certificate-authority-data": btoa(this.certificates.authority),
        },
      }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
      users: [{ name: "test", user: { token: "proxy" } }],
    });
  }

  /** Sends a request with all rights. */
  async request(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const response = await fetch(`https://127.0.0.1:${this.port}${path}`, {
      client: this.#client,
      method,
      headers: { authorization: "Bearer admin", "content-type": "application/json" },
      ...body !== undefined && { body: JSON.stringify(body) },
    });
    return { status: response.status, text: await response.text() };
  }

  /** Makes an object, or replaces it. */
  async put(object: ApiObject): Promise<void> {
    const collection = COLLECTIONS[object.kind ?? ""] ?? "";
    const { uid: _, ...metadata } = object.metadata as Readonly<Record<string, unknown>>;
    const body = { ...object, metadata };
    const made = await this.request("POST", collection, body);
    const { status, text } = made.status === 409
      ? await this.request("PUT", `${collection}/${metadata.name}`, body)
      : made;
    if (status >= 300) throw new Error(`${object.kind} ${metadata.name}: ${status} ${text}`);
  }

  async remove(kind: string, name: string): Promise<void> {
    const { status, text } = await this.request("DELETE", `${COLLECTIONS[kind]}/${name}`);
    if (status >= 300) throw new Error(`${kind} ${name}: ${status} ${text}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resources.disposeAsync();
  }
}

/** Starts a program, and ends it with the resources. */
function start(
  resources: AsyncDisposableStack,
  [program = "", ...args]: readonly string[],
  flags: Readonly<Record<string, string>>,
): void {
  const child = new Deno.Command(program, {
    args: [...args, ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  resources.defer(async () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await child.status;
  });
}

/** Returns a program's version, as `v1.33.13`. */
export async function versionOf(program: string): Promise<string> {
  const { stdout } = await execute([program, "--version"]);
  return /v[\d.]+/.exec(stdout)?.[0] ?? stdout;
}
