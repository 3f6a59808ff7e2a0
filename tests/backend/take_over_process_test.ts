import { assertEquals } from "@std/assert";
import { run } from "../support/command.ts";

/** Runs in a network namespace of its own, where nothing else runs. */
const SCRIPT = `
  import { kubeProxyProcesses } from "${
  new URL("../../lib/backend/take_over.ts", import.meta.url).href
}";
  import { DenoProcessRunner } from "${
  new URL("../../lib/system/process.ts", import.meta.url).href
}";
  const folder = Deno.makeTempDirSync({ prefix: "signpost-kube-proxy-" });
  Deno.chmodSync(folder, 0o755);
  const program = folder + "/kube-proxy";
  Deno.copyFileSync("/bin/sleep", program);
  Deno.copyFileSync("/bin/sleep", folder + "/signpost");
  Deno.mkdirSync(folder + "/image");
  const link = folder + "/image/kube-proxy";
  Deno.symlinkSync("../signpost", link);
  const start = (command, options = {}) => {
    const [first, ...args] = [...command, "60"];
    return new Deno.Command(first, { args, ...options }).spawn();
  };
  const own = start([program]);
  const apart = [
    start(["unshare", "-n", program]),
    start([program], { uid: 65534, gid: 65534 }),
    start([link]),
  ];
  const isStarted = ({ pid }) => Deno.readTextFileSync("/proc/" + pid + "/comm") === "kube-proxy\\n";
  while (![own, ...apart].every(isStarted)) await new Promise((done) => setTimeout(done, 10));
  const runtime = { runner: new DenoProcessRunner(), pid: Deno.pid };
  const found = await kubeProxyProcesses(runtime);
  const others = await kubeProxyProcesses(runtime, own.pid);
  console.log(found.length, found[0] === "kube-proxy (pid " + own.pid + ")", others.length);
  for (const each of [own, ...apart]) each.kill("SIGKILL");
  await Promise.all([own, ...apart].map((each) => each.status));
  Deno.removeSync(folder, { recursive: true });
`;

Deno.test("only a kube-proxy of root in this network namespace counts", async () => {
  const command = ["unshare", "-n", Deno.execPath(), "run", "-qA", "--ext=js", "-"];
  assertEquals(await run(command, { stdin: SCRIPT }), "1 true 0\n");
});
