/** The migration by one command: kubeadm's DaemonSet as it is, with signpost's image. */
import { assertEquals } from "@std/assert";
import { withImage } from "../support/image.ts";
import { sideBySide } from "../support/side_by_side.ts";
import { ADDRESSES, service, slice } from "./cluster.ts";
import { MANIFESTS, readAddon, startPod } from "./kubeadm_pod.ts";
import { HEALTH_PORT, Stage } from "./stage.ts";

const A = ADDRESSES[4];
const TOKEN = "a-token";
const WEB = [service(A, {}), slice(A, ["local1"])];

const VERSIONS = [...Deno.readDirSync(MANIFESTS)].map(({ name }) => name)
  .filter((name) => name.endsWith(".yaml")).map((name) => name.replace(".yaml", "")).sort();

const opened = Promise.withResolvers<string>();
const closed = Promise.withResolvers<void>();
let image: Promise<void>;

Deno.test.beforeAll(async () => {
  image = withImage(async (root) => {
    opened.resolve(root);
    await closed.promise;
  });
  image.catch(opened.reject);
  await opened.promise;
});

Deno.test.afterAll(async () => {
  closed.resolve();
  await image;
});

Deno.test("there is a manifest of each minor version from 1.30 to 1.37", () => {
  const minors = VERSIONS.map((version) => Number(version.split(".")[1]));
  assertEquals(minors, [30, 31, 32, 33, 34, 35, 36, 37]);
});

/** Most of their time is the delay of a state file. */
const test = sideBySide("signpost in kubeadm's DaemonSet", 4);

/** Matches warnings of a read-only root and a sandbox of tests. Any other warning fails the test. */
const EXPECTED = [
  /^no local socket/,
  /^the state file is not written/,
  /^the OOM score could not be set/,
  /nf_conntrack_max/,
];

for (const version of VERSIONS) {
  test(`kubeadm ${version}: signpost serves with kube-proxy's rights alone`, async () => {
    const addon = await readAddon(version);
    await using stage = await Stage.create({
      objects: WEB,
      api: { token: TOKEN, rules: addon.rules },
    });
    await using pod = await startPod({ stage, root: await opened.promise, addon });
    await pod.until("it is ready", async () => {
      const answer = await stage.get("/readyz", HEALTH_PORT).catch(() => undefined);
      return answer?.status === 200;
    });
    await stage.flowsBecome(pod, [{ from: "pod", to: A.clusterIP, reaches: ["local1"] }]);
    stage.apply(slice(A, ["local2"]));
    await stage.flowsBecome(pod, [{ from: "pod", to: A.clusterIP, reaches: ["local2"] }]);
    await pod.waitForLog(/ WARN the state file is not written/);

    // The role has it since 1.33.
    const mayReadCIDRs = addon.rules.some(({ resources }) => resources.includes("servicecidrs"));
    assertEquals(
      pod.log.match(/ finding=optional-objects-refused /g)?.length ?? 0,
      mayReadCIDRs ? 0 : 1,
      pod.log,
    );
    const loud = [...pod.log.matchAll(/ (?:WARN|ERROR) (.*)$/gm)].map(([, text = ""]) => text);
    assertEquals(loud.filter((text) => !EXPECTED.some((each) => each.test(text))), []);
    assertEquals(loud.length, new Set(loud.map((text) => text.replace(/ \w+=.*/, ""))).size);
  });
}
