import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml";
import { unpackedPackages } from "../../tools/unpacked.ts";
import { run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";
import { findHelm, template } from "../examples/helm.ts";
import { objectsIn } from "../examples/installed_objects.ts";
import { MANIFESTS } from "../e2e/kubeadm_pod.ts";
import type { ApiObject } from "../support/pipeline.ts";
import { typeErrors } from "../examples/kubernetes_types.ts";
import { archiveFiles, readContent } from "../../tools/package/content.ts";
import { exists, filesBelow, read } from "./checkout.ts";
import { blocksOf, commandsOf, GUIDES, onOwnMachine, ROOT } from "./guides.ts";

/** The texts of a guide's blocks with this mark. */
async function blocks(guide: string, mark: string): Promise<string[]> {
  return blocksOf(await Deno.readTextFile(GUIDES + guide))
    .filter((block) => block.mark === mark).map(({ text }) => text);
}

/** Runs a guide's commands; what they printed, or what went wrong. */
async function walk(script: string): Promise<string> {
  const { code, stdout, stderr } = await onOwnMachine(script);
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}

Deno.test("edge.md: a shell starts it without /var/lib, hands it over, and cleans up", async () => {
  const noState = "mount -t tmpfs -o ro tmpfs /var/lib\n";
  const printed = await walk(`${noState}${await commandsOf("edge.md", "files")}
${await commandsOf("edge.md", "shell")}
echo "left: $(nft list tables)"`);
  assertStringIncludes(printed, "table inet signpost\n");
  assertStringIncludes(printed, "ok\n");
  assertStringIncludes(printed, "left: \n");
});

Deno.test("edge.md: OpenRC starts it, reloads its configuration, stops and removes it", async () => {
  const openrc = await unpackedPackages(["openrc", "librc1", "libeinfo1"]);
  if (openrc === undefined) {
    // deno-lint-ignore no-console
    console.log("Debian's openrc cannot be had here: the service file is only read.");
    await run(["sh", "-n", `${ROOT}examples/install/openrc/signpost`]);
    return;
  }
  const installation = `
for folder in ${openrc.join(" ")}; do
  for part in lib sbin bin; do
    [ ! -d $folder/$part ] || cp -a $folder/$part/. /usr/$part/
  done
  [ ! -d $folder/usr ] || cp -a $folder/usr/. /usr/
  [ ! -d $folder/etc ] || cp -a $folder/etc/. /etc/
done
for state in starting started stopping inactive wasinactive failed hotplugged daemons options exclusive \\
  scheduled init.d tmp; do mkdir -p /run/openrc/$state; done
touch /run/openrc/softlevel
trap 'cat /var/log/signpost.log >&2' EXIT
`;
  const ready = "until curl -sf http://127.0.0.1:10256/readyz > /dev/null; do sleep 0.2; done\n";
  const [install, reload, stop] = await blocks("edge.md", "openrc");
  const [removal] = await blocks("edge.md", "removal");
  const printed = await walk(`${installation}
${await commandsOf("edge.md", "files")}
${install}
${ready}
# A program that it starts has its name for a moment.
until [ "$(pgrep -xc deno)" = 1 ]; do sleep 0.1; done
echo "processes: 1"
sed -i 's/minSyncPeriod: 0s/minSyncPeriod: 2s/' /etc/signpost/config.yaml
${reload}
until curl -s http://127.0.0.1:10249/configz | grep -q '"minSyncPeriod":"2s"'; do sleep 0.2; done
kill -9 $(pgrep -x deno)
sleep 1
${ready}
${stop}
rc-update -q add signpost default
rc-service signpost start
${ready}
${removal}
echo "left: $(nft list tables)"`);
  assertStringIncludes(printed, "status: started");
  assertStringIncludes(printed, "processes: 1\n");
  assertStringIncludes(printed.slice(printed.indexOf("processes:")), "table inet signpost\n");
  assertStringIncludes(printed, "left: \n");
});

/** Programs that need a cluster: they look whether the files are there, and record how they were called. */
const CLUSTER = `
for name in kubectl kubeadm helm skopeo; do
  cat > /usr/local/bin/$name <<'END'
#!/bin/sh
echo "$(basename $0) $*" >> /run/calls
before=
for each; do
  case "$before $each" in
    '-f -' | *kube-proxy-before.yaml) ;;
    '-f '* | '--patch-file '*) [ -e "$each" ] || { echo "$0: there is no $each" >&2; exit 1; } ;;
  esac
  before=$each
done
END
  chmod 0755 /usr/local/bin/$name
done
mkdir /run/admin && ln -s ${ROOT}examples ${ROOT}charts /run/admin && cd /run/admin
`;

/** Writes rules as kube-proxy has them. */
const KUBE_PROXY = `nft -f - <<'END'
table ip kube-proxy { chain services { }; }
table ip6 kube-proxy { chain services { }; }
END
`;

/** A daemon in the background, ready; systemd's part. */
const START = `signpost --config=/etc/signpost/config.yaml --state-file= &
daemon=$!
until curl -sf http://127.0.0.1:10256/healthz > /dev/null; do sleep 0.2; done
`;

Deno.test("kubeadm.md: a node is looked at, taken over and given back", async () => {
  const [node, control, taken, undone] = await Promise.all(
    ["node", "control", "taken", "undone"].map((mark) => commandsOf("kubeadm.md", mark)),
  );
  const printed = await walk(`${KUBE_PROXY}
echo "before:"; ${node}
${control}
nft list tables
${await commandsOf("edge.md", "files")}
${START}
echo "taken:"; ${taken}
kill $daemon; wait $daemon
${KUBE_PROXY}
${undone}
echo "after:"; nft list tables`);
  const both = "table ip kube-proxy\ntable ip6 kube-proxy\n";
  assertStringIncludes(printed.slice(0, printed.indexOf("taken:")), both);
  assertStringIncludes(printed.slice(printed.indexOf("taken:")), "\ntable inet signpost\n");
  assertEquals(printed.slice(printed.indexOf("after:")), `after:\n${both}`);
});

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: { readonly containers: readonly { readonly name: string }[] };
    };
  };
}

/** Returns the patch of a page, which is the only text between quotes after `--patch`. */
async function patchIn(path: string): Promise<DaemonSet> {
  const [, text = ""] = /--patch '([^']+)'/.exec(await Deno.readTextFile(path)) ?? [];
  return parse(text) as DaemonSet;
}

Deno.test("the patch gives kubeadm's DaemonSets only an image and a probe", async () => {
  const patch = await patchIn(`${GUIDES}kubeadm.md`);
  assertEquals(await patchIn(`${ROOT}README.md`), patch);
  // A rollback restores the template alone, so the patch has nothing beside it.
  assertEquals([Object.keys(patch.spec), Object.keys(patch.spec.template)], [["template"], [
    "spec",
  ]]);
  const [change, ...others] = patch.spec.template.spec.containers;
  assertEquals(others, []);
  assertEquals(Object.keys(change ?? {}), ["name", "image", "readinessProbe"]);
  const patched: ApiObject[] = [];
  for await (const { name } of Deno.readDir(MANIFESTS)) {
    if (!name.endsWith(".yaml")) continue;
    const objects = objectsIn(await Deno.readTextFile(MANIFESTS + name));
    const found = objects.find(({ kind }) => kind === "DaemonSet");
    const { containers, ...pod } = (found as unknown as DaemonSet).spec.template.spec;
    // A strategic merge finds containers by their names.
    assertEquals(containers.map((each) => each.name), [change?.name], name);
    assert(!("readinessProbe" in (containers[0] ?? {})), name);
    const spec = { ...pod, containers: [{ ...containers[0], ...change }] };
    patched.push({ apiVersion: "v1", kind: "Pod", metadata: { name: "kube-proxy" }, spec });
  }
  assertEquals(patched.length, 8);
  assertEquals(await typeErrors(patched), "");
});

for (const guide of ["kubeadm.md", "k3s-rke2.md", "daemonset.md"]) {
  Deno.test(`${guide}: the administrator's commands are in order, up to the cluster`, async () => {
    const commands = (await Promise.all(
      ["k3s", "rke2", "image", "cluster"].map((mark) => commandsOf(guide, mark)),
    )).join("\n");
    const printed = await walk(`${CLUSTER}\n${commands}\ncat /run/calls`);
    const written = commands.match(/^(?:\S.*\| )?(?:kubectl|kubeadm|helm|skopeo) /gm) ?? [];
    const called = printed.match(/^(?:kubectl|kubeadm|helm|skopeo) /gm) ?? [];
    assertEquals(called.length, written.length, printed);
  });
}

Deno.test("helm.md: its commands make objects", async () => {
  const helm = await findHelm();
  if (helm === undefined) return;
  const wrapper = `cat > /usr/local/bin/helm <<'END'
#!/bin/sh
exec ${helm} "$@" --kube-version 1.37.0
END
chmod 0755 /usr/local/bin/helm
`;
  const printed = await walk(wrapper + await commandsOf("helm.md", "helm"));
  assertEquals(printed.match(/^kind: DaemonSet$/gm)?.length, 2);
  assertStringIncludes(printed, "0 chart(s) failed");
});

Deno.test("k3s-rke2.md: signpost takes the configuration with k3s' own kubeconfig", async () => {
  const [configuration] = await blocks("k3s-rke2.md", "k3sconfig");
  await walk(`mkdir -p /etc/signpost
cat > /etc/signpost/config.yaml <<'END'
${configuration}END
signpost --once --config=/etc/signpost/config.yaml | nft -c -f -`);
});

Deno.test("k3s-rke2.md: the chart takes the values of the HelmChart", async () => {
  const helm = await findHelm();
  if (helm === undefined) return;
  const [manifest = ""] = await blocks("k3s-rke2.md", "helmchart");
  const { spec } = parse(manifest) as { readonly spec: { readonly valuesContent: string } };
  await using folder = await makeFolder("values");
  await Deno.writeTextFile(`${folder.path}/values.yaml`, spec.valuesContent);
  const { code, stdout, stderr } = await template(helm, ["-f", `${folder.path}/values.yaml`]);
  assertEquals(code, 0, stderr);
  assertStringIncludes(stdout, "https://127.0.0.1:6444");
});

Deno.test("the playbook stops at the first node that fails", async () => {
  const [play] = parse(await Deno.readTextFile(`${ROOT}examples/install/ansible.yaml`)) as {
    readonly serial: number;
    readonly any_errors_fatal: boolean;
    readonly tasks: readonly Readonly<Record<string, unknown>>[];
  }[];
  assertEquals([play?.serial, play?.any_errors_fatal], [1, true]);
  const commands = (play?.tasks ?? []).flatMap((task) => task["ansible.builtin.command"] ?? []);
  assertEquals(commands.map((command) => String(command).split(" ").slice(0, 4).join(" ")), [
    "signpost check",
    "kubectl label --overwrite node",
    "kubectl -n kube-system wait",
    "signpost verify",
    "signpost status",
  ]);
});

Deno.test("the guides' objects are those that Kubernetes knows", async () => {
  const pod = await read("examples/install/cleanup-pod.yaml");
  const cleanup = objectsIn(pod.replaceAll("NODE", "worker-1"));
  const patch = parse(await read("examples/install/kube-proxy-patch.yaml")) as {
    readonly spec: { readonly template: { readonly spec: Readonly<Record<string, unknown>> } };
  };
  const patched = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "kube-proxy" },
    spec: { ...patch.spec.template.spec, containers: [] },
  };
  assertEquals(await typeErrors([...cleanup, patched]), "");
});

Deno.test("the files of the checkout that the guides name are there", async () => {
  const missing: string[] = [];
  for (const guide of filesBelow("docs/install/")) {
    const text = await read(guide);
    const files = text.matchAll(/(?<![\w/.-])(?:examples|charts|systemd|tests)\/[\w./-]*\w/g);
    for (const [path] of files) if (!await exists(path)) missing.push(`${guide}: ${path}`);
  }
  assertEquals(missing, []);
});

Deno.test("the archive has what the guides install on a node", async () => {
  const archive = new Set(archiveFiles(await readContent()).map(({ path }) => path));
  const commands = await Promise.all([
    commandsOf("bare-metal.md", "files"),
    commandsOf("edge.md", "files"),
    commandsOf("edge.md", "openrc"),
  ]);
  const named = commands.join("\n").match(/(?<![\w/.-])(?:examples|systemd)\/[\w./-]*\w/g) ?? [];
  assert(named.length > 5);
  assertEquals(named.filter((path) => !archive.has(path)), []);
});
