import { assertEquals } from "@std/assert";
import { loadConfiguration } from "../../lib/config/load.ts";
import { KINDS } from "../../lib/model/cluster/objects.ts";
import { eventPath } from "../../lib/observe/events.ts";
import { parseKubeconfig } from "../../lib/source/api/access/kubeconfig.ts";
import { resourceOf } from "../../lib/source/objects/tables.ts";
import { EXAMPLES, readExample } from "./examples.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

/** `/apis/GROUP/VERSION/.../RESOURCE` or `/api/VERSION/.../RESOURCE` to `GROUP/RESOURCE`. */
function resourceIn(path: string): string {
  const [, root, group] = path.split("/");
  return `${root === "api" ? "" : group}/${path.split("/").at(-1)}`;
}

Deno.test("the role allows only what signpost asks for", async () => {
  const objects = await readExample("install/rbac.yaml");
  const role = objects.find(({ kind }) => kind === "ClusterRole") as { rules?: Rule[] } | undefined;
  const allowed = new Map(
    (role?.rules ?? []).flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups.flatMap((group) => resources.map((each) => [`${group}/${each}`, verbs] as const))
    ),
  );
  const read = KINDS.map((kind) => resourceIn(resourceOf(kind, "node-1").path));
  const events = resourceIn(eventPath("default"));
  assertEquals(
    allowed,
    new Map<string, readonly string[]>([
      ...read.map((each) => [each, ["get", "list", "watch"]] as const),
      [events, ["create"]],
    ]),
  );
});

async function daemonSetFiles(): Promise<Readonly<Record<string, string>>> {
  const objects = await readExample("install/daemonset.yaml");
  const map = objects.find(({ kind }) => kind === "ConfigMap");
  return map?.["data"] as Readonly<Record<string, string>>;
}

Deno.test("the DaemonSet's configuration is taken without an error or a warning", async () => {
  const files = await daemonSetFiles();
  const loaded = await loadConfiguration(["--config", "config.yaml"], {
    readFile: (path) => Promise.resolve(files[path] ?? ""),
  });
  assertEquals(loaded.type === "run" && loaded.warnings, []);
});

Deno.test("the kubeconfigs of the DaemonSet and of a node name a server, its CA and a token", async () => {
  const { "kubeconfig.yaml": inPod = "" } = await daemonSetFiles();
  const onNode = await Deno.readTextFile(`${EXAMPLES}install/kubeconfig.yaml`);
  const account = "/var/run/secrets/kubernetes.io/serviceaccount";
  for (const [text, folder] of [[inPod, account], [onNode, "/etc/signpost"]] as const) {
    const access = parseKubeconfig(text, { path: "/etc/signpost/kubeconfig" });
    assertEquals(access.server.origin, "https://192.0.2.1:6443");
    assertEquals(access.certificateAuthority, { type: "file", path: `${folder}/ca.crt` });
    assertEquals(access.token, { type: "file", path: `${folder}/token` });
    assertEquals(access.verify, true);
  }
});
