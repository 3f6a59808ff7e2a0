/**
 * The script that takes one node over checks each step, with a kubectl that stands in for a cluster.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const SCRIPT = new URL("../../examples/install/take-over-node.sh", import.meta.url).pathname;

/** A cluster of one node: its label and pods follow from each other; files in $STATE break it. */
const KUBECTL = `#!/bin/sh
is() { [ -e "$STATE/$1" ]; }
echo "$*" >> "$STATE/calls"
label=$(cat "$STATE/label")
case "$*" in
  'get node '*Ready*) is not-ready && echo False || echo True ;;
  'get node '*labels*) echo "$label" ;;
  'label '*node-proxy=none) echo none > "$STATE/label" ;;
  'label '*node-proxy=signpost) echo signpost > "$STATE/label" ;;
  'label '*node-proxy-) : > "$STATE/label" ;;
  *'daemonset kube-proxy'*) is not-patched || echo node-proxy ;;
  *'daemonset signpost'*image*) echo ghcr.io/example/signpost:1 ;;
  *'daemonset signpost'*) is everywhere || echo signpost ;;
  *'get pod -l k8s-app=kube-proxy'*) [ "$label" ] || echo kube-proxy-1 ;;
  *'get pod -l app'*) [ "$label" != signpost ] || echo signpost-1 ;;
  *'wait pod -l app'*) ! is crashing ;;
  *'exec signpost-1 -- signpost verify') ! is differs ;;
  *'exec signpost-1 -- signpost status') ! is unhealthy ;;
  *'apply -f -') cat > "$STATE/applied" ;;
  *'wait pod signpost-cleanup-'*) ! is cleanup-failed ;;
  *'delete pod signpost-cleanup-'*) rm -f "$STATE/cleanup-failed" ;;
esac
`;

async function takeOver(
  args: readonly string[],
  { broken = [], label = "" }: { readonly broken?: readonly string[]; readonly label?: string } =
    {},
) {
  await using folder = await makeFolder("cluster");
  const write = (name: string, text: string) =>
    Deno.writeTextFile(`${folder.path}/${name}`, text, { mode: 0o755 });
  await write("kubectl", KUBECTL);
  await write("sleep", "#!/bin/sh\n");
  await write("label", label);
  await write("calls", "");
  await write("applied", "");
  for (const name of broken) await write(name, "");
  const env = { STATE: folder.path, PATH: `${folder.path}:${Deno.env.get("PATH")}` };
  const result = await execute([SCRIPT, ...args], { env });
  const read = (name: string) => Deno.readTextFile(`${folder.path}/${name}`);
  return {
    ...result,
    label: (await read("label")).trim(),
    calls: await read("calls"),
    applied: await read("applied"),
  };
}

Deno.test("a node that was taken over is only checked", async () => {
  for (const label of ["", "signpost"]) {
    const done = await takeOver(["worker-1"], { label });
    assertEquals([done.code, done.label, done.stderr], [0, "signpost", ""]);
    assertStringIncludes(done.stdout, "worker-1: the kernel holds signpost's rules and no others");
    assertEquals(done.calls.includes("node-proxy=none"), label === "");
  }
});

for (
  const [broken, message] of [
    ["not-ready", "worker-1: the node is not Ready"],
    ["not-patched", "apply examples/install/kube-proxy-patch.yaml"],
    ["everywhere", "signpost's DaemonSet needs the nodeSelector node-proxy: signpost"],
  ] as const
) {
  Deno.test(`a node is left alone if the cluster is ${broken}`, async () => {
    const failed = await takeOver(["worker-1"], { broken: [broken] });
    assertEquals([failed.code, failed.label], [1, ""]);
    assertStringIncludes(failed.stderr, message);
    assertEquals(failed.calls.includes("label "), false);
  });
}

for (
  const [broken, message] of [
    ["crashing", "signpost is not Ready; going back to kube-proxy"],
    ["differs", "signpost verify finds differences; going back to kube-proxy"],
    ["unhealthy", "signpost status reports an error; going back to kube-proxy"],
  ] as const
) {
  Deno.test(`kube-proxy comes back if signpost is ${broken}`, async () => {
    const failed = await takeOver(["worker-1"], { broken: [broken] });
    assertEquals([failed.code, failed.label], [1, ""]);
    assertStringIncludes(failed.stderr, `worker-1: ${message}`);
    assertStringIncludes(failed.stdout, "worker-1: signpost's rules are removed");
  });
}

Deno.test("--back brings kube-proxy back, then removes the rules with the DaemonSet's image", async () => {
  const back = await takeOver(["--back", "worker-1"], { label: "signpost" });
  assertEquals([back.code, back.label, back.stderr], [0, "", ""]);
  assertStringIncludes(back.applied, "name: signpost-cleanup-worker-1\n");
  assertStringIncludes(back.applied, "image: ghcr.io/example/signpost:1\n");
});

Deno.test("--back leaves a node alone if signpost's pod would not leave it", async () => {
  const args = ["--back", "worker-1"];
  const failed = await takeOver(args, { broken: ["everywhere"], label: "signpost" });
  assertEquals([failed.code, failed.label], [1, "signpost"]);
  assertStringIncludes(failed.stderr, "signpost's DaemonSet needs the nodeSelector");
});

Deno.test("--back again starts a new pod in the place of one that failed", async () => {
  const back = await takeOver(["--back", "worker-1"], { broken: ["cleanup-failed"] });
  assertEquals([back.code, back.stderr], [0, ""]);
  assertStringIncludes(back.stdout, "worker-1: signpost's rules are removed");
});

Deno.test("without a node, the script prints its usage", async () => {
  const { code, stderr } = await takeOver([]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, "take-over-node.sh --back NODE");
});
