/**
 * The pod of kubeadm's kube-proxy DaemonSet with signpost's image, as kubelet and containerd run it.
 */
import type { PolicyRule } from "../support/api_server.ts";
import { objectsIn } from "../examples/installed_objects.ts";
import { Signpost } from "../support/signpost.ts";
import type { Stage } from "./stage.ts";

/** Manifests that kubeadm printed, and the ClusterRole of the same version; README.md there says how. */
export const MANIFESTS = new URL("../testdata/kubeadm/", import.meta.url).pathname;

interface Container {
  readonly command: readonly string[];
  readonly env: readonly { readonly name: string }[];
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly readOnly?: boolean;
  }[];
}

interface PodSpec {
  readonly hostNetwork: boolean;
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { readonly name: string };
    readonly hostPath?: { readonly path: string };
  }[];
}

/** One version's DaemonSet, its ConfigMap and the rules of system:node-proxier. */
export interface KubeadmAddon {
  readonly pod: PodSpec;
  readonly files: Readonly<Record<string, string>>;
  readonly rules: readonly PolicyRule[];
}

/** Reads the manifests of a version, such as `v1.37.2`. */
export async function readAddon(version: string): Promise<KubeadmAddon> {
  const objects = objectsIn(await Deno.readTextFile(`${MANIFESTS}${version}.yaml`));
  const find = <T>(kind: string) => objects.find((object) => object.kind === kind) as T;
  const daemonSet = find<{ spec: { template: { spec: PodSpec } } }>("DaemonSet");
  return {
    pod: daemonSet.spec.template.spec,
    files: find<{ data: Record<string, string> }>("ConfigMap").data,
    rules: find<{ rules: PolicyRule[] }>("ClusterRole").rules,
  };
}

/** Mounts what is named on standard input, makes the root read-only, and becomes the container's command. */
const RUNTIME = `
set -e
root=$1 mounts=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /sys "$root/sys"
while read -r source target options; do
  mount --bind "$source" "$root$target"
  [ "$options" = rw ] || mount -o "remount,bind,$options" "$root$target"
done < "$mounts"
exec chroot "$root" "$@"
`;

const TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Starts the pod's container in the node's namespace.
 *
 * @param root the image's files; mount points are added
 */
export async function startPod(
  { stage, root, addon }: {
    readonly stage: Stage;
    readonly root: string;
    readonly addon: KubeadmAddon;
  },
): Promise<Signpost> {
  const { pod, files } = addon;
  const [container] = pod.containers;
  const folder = await Deno.makeTempDir({ dir: stage.folder, prefix: "pod-" });
  const mounts: string[] = [];
  const mount = async (source: string, target: string, options: string) => {
    const { isDirectory } = await Deno.stat(source);
    const parent = isDirectory ? target : target.replace(/\/[^/]*$/, "");
    await Deno.mkdir(`${root}${parent}`, { recursive: true });
    if (!isDirectory) await Deno.writeTextFile(`${root}${target}`, "");
    mounts.push(`${source} ${target} ${options}`);
  };
  for (const { name, mountPath, readOnly } of container.volumeMounts) {
    const source = `${folder}/${name}`;
    const volume = pod.volumes.find((each) => each.name === name);
    // Tests have no part in the machine's own lock of iptables.
    if (volume?.hostPath?.path === "/run/xtables.lock") await Deno.writeTextFile(source, "");
    else await Deno.mkdir(source);
    if (volume?.configMap !== undefined) {
      for (const [file, text] of Object.entries(files)) {
        const own = text.replace("https://192.0.2.1:6443", stage.api.url);
        await Deno.writeTextFile(`${source}/${file}`, own);
      }
    }
    // ConfigMaps are read-only for containers.
    await mount(source, mountPath, readOnly || volume?.configMap !== undefined ? "ro" : "rw");
  }
  const tokens = `${folder}/tokens`;
  await Deno.mkdir(tokens);
  await Deno.writeTextFile(`${tokens}/ca.crt`, stage.api.options.certificates?.authority ?? "");
  await Deno.writeTextFile(`${tokens}/token`, stage.api.options.token ?? "");
  await mount(tokens, TOKENS, "ro");
  await Deno.writeTextFile(`${folder}/mounts`, mounts.map((line) => `${line}\n`).join(""));
  const [program = "", ...args] = container.command.map((word) =>
    word.replace("$(NODE_NAME)", "node1")
  );
  return Signpost.start(stage.network, args, {
    command: ["unshare", "-m", "sh", "-c", RUNTIME, "sh", root, `${folder}/mounts`, program],
    env: { PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NODE_NAME: "node1" },
  });
}
