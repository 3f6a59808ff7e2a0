/** The plug-in asks the pods of all nodes, with a kubectl that stands in for a cluster. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const SCRIPT = new URL("../../examples/install/kubectl-signpost", import.meta.url).pathname;

/** A pod's answer is the file of its name, with the exit code in its first line; calls are counted while they run. */
const KUBECTL = `#!/bin/sh
echo "$*" >> "$STATE/calls"
case "$*" in
  *'get pods'*k8s-app*) cat "$STATE/kube-proxy" 2> /dev/null; exit 0 ;;
  *'get pods'*) cat "$STATE/pods" ;;
  *'get nodes'*) cat "$STATE/nodes" ;;
  *exec*)
    mkdir "$STATE/running/$$"
    ls "$STATE/running" | wc -l >> "$STATE/at-once"
    sleep 0.1
    while [ "$1" != exec ]; do shift; done
    sed 1d "$STATE/pod-$4"
    rmdir "$STATE/running/$$"
    exit "$(head -n 1 "$STATE/pod-$4")"
    ;;
esac
`;

interface Cluster {
  /** The answer of each node's pod: its exit code, and what it prints. */
  readonly answers: Readonly<Record<string, readonly [code: number, text: string]>>;
  readonly nodes?: readonly string[];
  readonly isKubeadm?: boolean;
  /** Lines that the list of pods has besides. */
  readonly more?: string;
}

async function plugin(args: readonly string[], { answers, nodes, isKubeadm, more = "" }: Cluster) {
  await using folder = await makeFolder("cluster");
  const write = (name: string, text: string) =>
    Deno.writeTextFile(`${folder.path}/${name}`, text, { mode: 0o755 });
  await Deno.mkdir(`${folder.path}/running`);
  await write("kubectl", KUBECTL);
  const pods = Object.keys(answers).map((node) => `${node} kube-system signpost-${node}\n`);
  await write("pods", isKubeadm ? "" : pods.join("") + more);
  await write("kube-proxy", pods.join(""));
  await write("nodes", (nodes ?? Object.keys(answers)).join(" "));
  for (const [node, [code, text]] of Object.entries(answers)) {
    await write(`pod-signpost-${node}`, `${code}\n${text}`);
  }
  const env = { STATE: folder.path, PATH: `${folder.path}:${Deno.env.get("PATH")}` };
  const result = await execute([SCRIPT, ...args], { env, cwd: folder.path });
  const read = (name: string) => Deno.readTextFile(`${folder.path}/${name}`);
  const archives = [...Deno.readDirSync(folder.path)].map(({ name }) => name)
    .filter((name) => name.endsWith(".gz")).sort();
  return {
    ...result,
    calls: await read("calls").catch(() => ""),
    atOnce: Math.max(
      0,
      ...(await read("at-once").catch(() => "0")).trim().split("\n").map(Number),
    ),
    archives: Object.fromEntries(
      await Promise.all(archives.map(async (name) => [name, await read(name)])),
    ),
  };
}

const FINE: readonly [number, string] = [0, "signpost check on a: no node problems\n"];
const FINDINGS: readonly [number, string] = [
  1,
  `signpost check on worker-7: 2 warnings
  mode  nftables (nft 1.0.6), kernel 6.12

warning chain FORWARD of table ip filter drops connections [firewall-drops-services]
  Accept them: iptables -I FORWARD
warning a port [of] two [firewall-drops-services]
error something else [forwarding-off]
`,
];

Deno.test("check has a line for each node with findings", async () => {
  const { code, stdout } = await plugin(["check"], {
    answers: { "worker-1": FINE, "worker-7": FINDINGS, "worker-8": FINE },
  });
  assertEquals([code, stdout], [1, "worker-7  firewall-drops-services,forwarding-off\n2 ok\n"]);
});

Deno.test("the other commands say in a line what is wrong", async () => {
  const lines = {
    status: [
      1,
      "signpost 0.1.0 on b: unhealthy: no sync\n  mode  nftables\n",
      "unhealthy: no sync",
    ],
    verify: [1, "nftables on b: 3 services\n1 difference\n\nservices4\n", "1 difference"],
    test: [
      1,
      "shop/web\nwarning x [endpoint-unreachable]\n\n12 Services tested from node b: 1 fails; 3 of 4 connections open\n",
      "1 fails; 3 of 4 connections open",
    ],
    explain: [
      1,
      "Service shop/web is broken here (ClusterIP)\nOn node b\n",
      "Service shop/web is broken here (ClusterIP)",
    ],
  } as const;
  for (const [command, [code, text, line]] of Object.entries(lines)) {
    const result = await plugin([
      command,
      "--all-nodes",
      ...command === "explain" ? ["shop/web"] : [],
    ], { answers: { a: [0, "fine\n"], b: [code, text] } });
    assertEquals([result.code, result.stdout], [1, `b  ${line}\n1 ok\n`], command);
  }
});

Deno.test("a pod in which signpost cannot run has kubectl's error in its line", async () => {
  const { code, stdout } = await plugin(["verify"], {
    answers: { a: [126, "error: exec failed: executable file not found in $PATH\n"], b: [2, ""] },
  });
  assertEquals(code, 126);
  assertEquals(
    stdout,
    "a  error: exec failed: executable file not found in $PATH\nb  exit code 2\n0 ok\n",
  );
});

Deno.test("a node without a pod has a line", async () => {
  const { code, stdout } = await plugin(["status"], { answers: { a: FINE }, nodes: ["a", "b"] });
  assertEquals([code, stdout], [1, "b  no pod of signpost runs\n1 ok\n"]);
});

Deno.test("one node is shown in full, with the exit code of the command", async () => {
  const { code, stdout, calls } = await plugin(
    ["check", "--node", "worker-7", "--context=prod", "--kubeconfig", "/k", "-o", "table"],
    { answers: { "worker-1": FINE, "worker-7": FINDINGS } },
  );
  assertEquals([code, stdout], FINDINGS as [number, string]);
  assertStringIncludes(
    calls,
    "--context=prod --kubeconfig=/k exec -n kube-system signpost-worker-7 -- signpost check -o table\n",
  );
  const none = await plugin(["check", "--node=x"], { answers: { a: FINE } });
  assertEquals([none.code, none.stderr], [
    2,
    "kubectl signpost: no pod of signpost runs on node x\n",
  ]);
});

Deno.test("explain asks one node", async () => {
  const { stdout, calls } = await plugin(["explain", "10.0.0.1 to $(id):80", "-v"], {
    answers: { b: [0, "b\n"], a: [0, "Packet\n"] },
  });
  assertEquals(stdout, "Packet\n");
  assertStringIncludes(calls, "signpost-a -- signpost explain 10.0.0.1 to $(id):80 -v\n");
});

Deno.test("bundle writes an archive for each node", async () => {
  const { code, stdout, archives } = await plugin(["bundle"], {
    answers: { a: [0, "archive a\n"], b: [0, "archive b\n"] },
  });
  assertEquals([code, stdout], [0, "a  signpost-a.tar.gz\nb  signpost-b.tar.gz\n"]);
  assertEquals(archives, {
    "signpost-a.tar.gz": "archive a\n",
    "signpost-b.tar.gz": "archive b\n",
  });
});

Deno.test("at most eight nodes are asked at one time", async () => {
  const answers = Object.fromEntries(Array.from({ length: 19 }, (_, i) => [`n${i}`, FINE]));
  const { stdout, atOnce } = await plugin(["check"], { answers });
  assertEquals(stdout, "19 ok\n");
  assert(atOnce > 1 && atOnce <= 8, `${atOnce}`);
});

Deno.test("the pods of kubeadm's kube-proxy are asked if no others are there", async () => {
  const { stdout } = await plugin(["check"], { answers: { a: FINE, b: FINE }, isKubeadm: true });
  assertEquals(stdout, "2 ok\n");
});

Deno.test("no terminal obeys what a node prints", async () => {
  const { stdout, calls, archives } = await plugin(["bundle"], {
    answers: { a: [1, "\x1b[2Jevil\x07\n"], b: FINE },
    more: "../../etc kube-system x\n$(touch y) kube-system z\n-n kube-system w\n",
  });
  assertEquals(stdout, "a  exit code 1\nb  signpost-b.tar.gz\n");
  assertEquals(calls.match(/^exec /gm)?.length, 2);
  // No part of an archive is left.
  assertEquals(Object.keys(archives), ["signpost-b.tar.gz"]);
  const shown = await plugin(["check"], { answers: { a: [1, "\x1b[2Jevil\x07\n"], b: FINE } });
  assertEquals(shown.stdout, "a  [2Jevil\n1 ok\n");
});

Deno.test("an unknown command and a list that is refused end it with 2", async () => {
  const unknown = await plugin(["cleanup"], { answers: { a: FINE } });
  assertEquals([unknown.code, unknown.calls], [2, ""]);
  const none = await plugin(["check"], { answers: {} });
  assertEquals([none.code, none.stderr], [2, "kubectl signpost: no pod of signpost runs\n"]);
});
