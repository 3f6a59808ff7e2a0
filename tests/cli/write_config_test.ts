import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { writeConfig } from "../../lib/cli/write_config.ts";
import { FatalError } from "../../lib/model/values/fatal.ts";
import { configurationOf, load } from "../config/support.ts";
import { world } from "./runtime.ts";

const FLAGS = ["--cluster-cidr=10.0.0.0/8", "--proxy-mode=iptables", "--conntrack-min=7"];

Deno.test("--write-config-to writes a file that is read as the same configuration", async () => {
  const configuration = configurationOf(await load(FLAGS));
  const written: string[] = [];
  const { runtime, logger } = world({
    writeFile: (path, text) => {
      written.push(path, text);
      return Promise.resolve();
    },
  });
  await writeConfig({ path: "/run/signpost/x", configuration, runtime, logger });
  const [path, text = ""] = written;
  assertEquals(path, "/run/signpost/x");
  assertMatch(text, /^apiVersion: kubeproxy\.config\.k8s\.io\/v1alpha1$/m);
  assertEquals(configurationOf(await load(["--config=x"], { x: text })), configuration);
});

Deno.test("--write-config-to=/dev/stdout prints it", async () => {
  const configuration = configurationOf(await load(FLAGS));
  const { runtime, logger, printed } = world();
  await writeConfig({ path: "/dev/stdout", configuration, runtime, logger });
  assertMatch(printed.join(""), /^kind: KubeProxyConfiguration$/m);
});

Deno.test("a file that may not be written is one line that says where signpost may write", async () => {
  const { runtime, logger } = world({
    writeFile: () => Promise.reject(new Error("Requires write access")),
  });
  const configuration = configurationOf(await load([]));
  const error = await assertRejects(
    () => writeConfig({ path: "/etc/x", configuration, runtime, logger }),
    FatalError,
  );
  assertMatch(error.message, /^--write-config-to: \/etc\/x cannot be written: .*\/dev\/stdout$/);
});
