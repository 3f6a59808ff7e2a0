import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { loadConfiguration } from "../../lib/config/load.ts";
import { parseKubeconfig } from "../../lib/source/api/access/kubeconfig.ts";
import { CHART, findHelm, lint, template } from "./helm.ts";
import { EXAMPLES } from "./examples.ts";
import { comparable, fileIn, objectsIn } from "./installed_objects.ts";
import { typeErrors } from "./kubernetes_types.ts";
import { NAME } from "../../tools/image.ts";

const EXAMPLE_FILES = ["install/daemonset.yaml", "install/rbac.yaml"];
const VALUES = ["default", "dual-stack", "iptables-edge"];
const valuesFile = (name: string) => `${CHART}/ci/${name}-values.yaml`;

const examples = objectsIn(
  (await Promise.all(EXAMPLE_FILES.map((name) => Deno.readTextFile(EXAMPLES + name))))
    .join("\n---\n"),
);

Deno.test("the installation's objects are those that Kubernetes knows", async () => {
  assertEquals(await typeErrors(examples), "");
});

Deno.test("the check of types finds a field that Kubernetes does not know", async () => {
  const pod = {
    metadata: { name: "a" },
    spec: { containers: [{ name: "a", imagePullpolicy: "Always" }] },
  };
  const wrong = await typeErrors([{ apiVersion: "v1", kind: "Pod", ...pod }]);
  assertStringIncludes(wrong, "imagePullpolicy");
});

const helm = await findHelm() ?? "";

/** Adds a test that needs Helm. */
function test(name: string, fn: () => Promise<void>): void {
  Deno.test({ name, ignore: helm === "", fn });
}

const render = async (...args: string[]) => {
  const { code, stdout, stderr } = await template(helm, args);
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
  return objectsIn(stdout);
};

for (const name of VALUES) {
  test(`helm takes the chart with ${name} values`, async () => {
    const linted = await lint(helm, ["-f", valuesFile(name)]);
    assertEquals(linted.code, 0, linted.stdout + linted.stderr);
    const objects = await render("-f", valuesFile(name));
    assertEquals(await typeErrors(objects), "");
    const loaded = await loadConfiguration(["--config", "config.yaml"], {
      readFile: (path) => Promise.resolve(fileIn(objects, path)),
    });
    assertEquals(loaded.type === "run" && loaded.warnings, []);
    const access = parseKubeconfig(fileIn(objects, "kubeconfig.yaml"), {
      path: "/etc/signpost/kubeconfig.yaml",
    });
    assertEquals([access.server.protocol, access.verify], ["https:", true]);
  });
}

test("the chart makes what examples/install has", async () => {
  // The token of nodes without pods is none of the chart's.
  const expected = examples.filter(({ kind }) => kind !== "Secret");
  assertEquals(comparable(await render("-f", valuesFile("default"))), comparable(expected));
});

test("each of the chart's values comes out where it belongs", async () => {
  const objects = comparable(await render("-f", valuesFile("iptables-edge")));
  assertEquals(Object.keys(objects), ["ConfigMap signpost", "DaemonSet signpost"]);
  const text = JSON.stringify(objects);
  for (
    const part of [
      `"image":"${NAME}:0.1.0-edge"`,
      `"server":"https://127.0.0.1:6444"`,
      `"mode":"iptables"`,
      `"detectLocal":{"bridgeInterface":"cni0"}`,
      `"limits":{"memory":"256Mi"}`,
      `"tolerations":[{"effect":"NoSchedule","key":"node-role.kubernetes.io/edge",` +
      `"operator":"Exists"}]`,
      `"priorityClassName":"edge-critical"`,
      `"proxy":"signpost"`,
      `"serviceAccountName":"edge-proxy"`,
      `"host":"192.0.2.7"`,
      `"updateStrategy":{"type":"OnDelete"}`,
    ]
  ) assertStringIncludes(text, part);
});

test("the chart says which value is missing or wrong", async () => {
  const file = valuesFile("default");
  for (
    const [setting, words] of [
      ["apiServer=", "apiServer: name the API server's own address"],
      ["clusterCIDR=", "clusterCIDR: name the range of all pods"],
      ["image.repository=", "image.repository: name the image"],
      ["mode=userspace", "mode"],
      ["tolerance=x", "tolerance"],
      [
        "apiServer=http://192.0.2.1",
        'apiServer: is "http://192.0.2.1", must be https://HOST:PORT',
      ],
      ["image.digest=abc", 'image.digest: is "abc", must be sha256: and 64 hexadecimal digits'],
      ["healthzBindAddress=:10256", 'healthzBindAddress: is ":10256", must be ADDRESS:PORT'],
      ["podMonitor.enabled=true", 'metricsBindAddress: is "127.0.0.1:10249", and Prometheus'],
    ] as const
  ) {
    const { code, stderr } = await template(helm, ["-f", file, "--set", setting]);
    assert(code !== 0, setting);
    assertStringIncludes(stderr, words);
  }
});

test("the chart has a monitor, the alerts and the dashboard for those who ask for them", async () => {
  const objects = await render("-f", valuesFile("monitoring"));
  const find = (kind: string) => objects.find((each) => each.kind === kind) ?? {};
  const rules = find("PrometheusRule") as { readonly spec?: unknown };
  const text = await Deno.readTextFile(`${CHART}/monitoring/alerts.yaml`);
  assertEquals([rules.spec], objectsIn(text));
  const monitor = JSON.stringify(find("PodMonitor"));
  assertStringIncludes(
    monitor,
    `[{"port":"metrics","path":"/metrics","interval":"15s",` +
      `"relabelings":[{"targetLabel":"job","replacement":"kube-proxy"}]}]`,
  );
  const daemonSet = JSON.stringify(find("DaemonSet"));
  assertStringIncludes(daemonSet, `"ports":[{"name":"metrics","containerPort":10249}]`);
  const dashboard = objects.find(({ metadata }) => metadata.name === "signpost-dashboard");
  const { "signpost.json": json = "" } = dashboard?.["data"] as Record<string, string>;
  const file = await Deno.readTextFile(`${CHART}/monitoring/dashboard.json`);
  assertEquals(JSON.parse(json), JSON.parse(file));
  const known = objects.filter(({ apiVersion }) => !apiVersion?.startsWith("monitoring."));
  assertEquals(await typeErrors(known), "");
  assertEquals((await lint(helm, ["-f", valuesFile("monitoring")])).code, 0);
});

const renderCleanup = async (setting: string) => {
  const objects = await render("-f", valuesFile("default"), "--set", `cleanup=true,${setting}`);
  return { objects, daemonSets: objects.filter(({ kind }) => kind === "DaemonSet") };
};

test("a pod on each node removes the rules with cleanup", async () => {
  const { objects, daemonSets } = await renderCleanup("image.pullPolicy=Always");
  assertEquals(daemonSets.map(({ metadata }) => metadata.name), ["signpost-cleanup"]);
  assertEquals(await typeErrors(objects), "");
  const pod = await Deno.readTextFile(`${EXAMPLES}install/cleanup-pod.yaml`);
  const [{ spec }] = objectsIn(pod) as unknown as [{ spec: { containers: unknown[] } }];
  const text = JSON.stringify(objects);
  assertEquals(text.match(/"imagePullPolicy":"Always"/g)?.length, 2);
  const { image: _, ...container } = spec.containers[0] as Record<string, unknown>;
  for (const [field, value] of Object.entries(container)) {
    assertStringIncludes(text, JSON.stringify({ [field]: value }).slice(1, -1));
  }
});

test("the rules go from nodes that have gone back to kube-proxy, too", async () => {
  const { daemonSets } = await renderCleanup("nodeSelector.node-proxy=signpost");
  const [found] = daemonSets as unknown as [
    { spec: { template: { spec: { nodeSelector: unknown } } } },
  ];
  assertEquals(found.spec.template.spec.nodeSelector, { "kubernetes.io/os": "linux" });
});

test("a change of the configuration replaces the pods", async () => {
  const checksum = async (...args: string[]) => {
    const { stdout } = await template(helm, ["-f", valuesFile("default"), ...args]);
    return /checksum\/config: (\w+)/.exec(stdout)?.[1];
  };
  const before = await checksum();
  assertEquals(await checksum("--set", "resources.limits.memory=1Gi"), before);
  assert(await checksum("--set", "mode=iptables") !== before);
});
