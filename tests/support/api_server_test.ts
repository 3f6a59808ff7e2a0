/** The test API server as others use it: as a process with its control requests. */
import { assertEquals } from "@std/assert";
import { eventually } from "./eventually.ts";

Deno.test("the test API server runs as a process that control requests change", async () => {
  const folder = await Deno.makeTempDir({ prefix: "signpost-api-" });
  const script = new URL("api_server_main.ts", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", script, "--dir", folder, "--generate", "3x2", "--token", "secret"],
    stdin: "null",
  }).spawn();
  try {
    const base = await eventually("the control URL", () => Deno.readTextFile(`${folder}/control`));
    const post = async (path: string, body: unknown) => {
      const response = await fetch(base + path, { method: "POST", body: JSON.stringify(body) });
      return [response.status, await response.json()];
    };
    const names = async (kind: string) => {
      const response = await fetch(`${base}/objects?kind=${kind}`);
      const objects: { metadata: { name: string } }[] = await response.json();
      return objects.map(({ metadata }) => metadata.name);
    };
    assertEquals(await names("Service"), ["service-0", "service-1", "service-2"]);
    await post("/objects", [{ kind: "Node", metadata: { name: "n" } }]);
    assertEquals(await names("Node"), ["n"]);
    assertEquals(await post("/delete", { kind: "Node", key: "n" }), [200, { deleted: true }]);
    assertEquals(await names("Node"), []);
    const kubeconfig = JSON.parse(await Deno.readTextFile(`${folder}/kubeconfig`));
    assertEquals(kubeconfig.users[0].user, { token: "secret" });
    assertEquals((await post("/actions", { action: "restart" }))[0], 200);
    assertEquals((await post("/actions", { action: "nothing" }))[0], 400);
  } finally {
    child.kill();
    await child.status;
    await Deno.remove(folder, { recursive: true });
  }
});
