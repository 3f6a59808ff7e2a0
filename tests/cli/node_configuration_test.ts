import { assertEquals } from "@std/assert";
import { nodeConfiguration } from "../../lib/cli/node_configuration.ts";
import { loadConfiguration } from "../../lib/config/load.ts";
import type { CommandLine } from "../../lib/model/configuration.ts";

const NODE_FILE = "/etc/signpost/config.yaml";
const HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
const DAEMON: CommandLine = {
  argv: ["run", "--config", "c.yaml", "--cluster-cidr", "10.0.0.0/8", "--manifests", "m", "--wait"],
  workingDirectory: "/srv",
  file: {
    path: "c.yaml",
    text: `${HEAD}mode: iptables\nclientConnection:\n  kubeconfig: sub/kubeconfig\n`,
  },
};

interface Around {
  readonly daemon?: CommandLine;
  readonly file?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Finds the configuration of a command line on a node, and the text on standard error. */
async function onNode(words: string, { daemon, file, environment = {} }: Around) {
  const argv = words.split(" ");
  const asked: string[] = [];
  const lines: string[] = [];
  const readFile = (path: string) => {
    if (path === NODE_FILE && file !== undefined) return Promise.resolve(file);
    return Promise.reject(Object.assign(new Error("no such file"), { name: "NotFound" }));
  };
  const invocation = await loadConfiguration(argv, { readFile });
  if (invocation.type !== "run") throw new Error(JSON.stringify(invocation));
  const result = await nodeConfiguration({
    argv,
    invocation,
    runtime: {
      readFile,
      environment: (name) => environment[name],
      complain: (line) => void lines.push(line),
      askDaemon: (path, request) => {
        asked.push(`${path} ${request.method} ${request.path}`);
        return daemon ? Promise.resolve(daemon) : Promise.reject(new Error("refused"));
      },
    },
  });
  return { result, lines, asked, isSame: result === invocation };
}

/** The configuration, where there is one. */
async function configurationOf(words: string, around: Around) {
  const { result, lines } = await onNode(words, around);
  if (result.type !== "run") throw new Error(JSON.stringify(result));
  return { ...result, lines };
}

const COMMANDS = ["explain shop/web", "verify", "diff --manifests new.yaml", "cleanup", "check"];

Deno.test("flags win over the running daemon's configuration", async () => {
  for (const words of COMMANDS) {
    const { command, configuration, lines } = await configurationOf(
      `${words} --cluster-cidr 10.9.0.0/16`,
      { daemon: DAEMON, file: "ignored" },
    );
    assertEquals(command.name, words.split(" ")[0]);
    assertEquals(configuration.mode, "iptables");
    assertEquals(configuration.clusterCIDRs, ["10.9.0.0/16"]);
    assertEquals(configuration.clientConnection.kubeconfig, "/srv/sub/kubeconfig");
    assertEquals(lines, [
      "signpost: with the configuration of the running daemon (/run/signpost/signpost.sock)",
    ]);
  }
  const { configuration } = await configurationOf("verify", { daemon: DAEMON });
  assertEquals(configuration.signpost.manifests, ["/srv/m"]);
});

Deno.test("the daemon is asked at the socket that the flags name", async () => {
  const { asked } = await onNode("verify --socket /run/x.sock", { daemon: DAEMON });
  assertEquals(asked, ["/run/x.sock GET /v1/command-line"]);
  for (const flag of ["--kubeconfig=k", "--master=http://127.0.0.1", "--manifests=m"]) {
    const { isSame, lines, asked } = await onNode(`verify ${flag}`, { daemon: DAEMON });
    assertEquals([isSame, lines, asked], [true, [], []]);
  }
});

Deno.test("the node's file counts without a daemon", async () => {
  for (const words of COMMANDS) {
    const { configuration, lines } = await configurationOf(words, {
      file: `${HEAD}mode: nftables\nhostnameOverride: n7\n`,
    });
    assertEquals([configuration.mode, configuration.hostnameOverride], ["nftables", "n7"]);
    assertEquals(lines, [`signpost: with the configuration of this node (${NODE_FILE})`]);
  }
});

Deno.test("commands that need a cluster say what is missing without a daemon", async () => {
  for (const words of ["explain shop/web", "verify", "diff --manifests new.yaml"]) {
    const { result } = await onNode(words, {});
    const flags = words.startsWith("diff")
      ? "--config, --kubeconfig or --master"
      : "--config, --kubeconfig, --master or --manifests";
    assertEquals(result, {
      type: "errors",
      errors: [
        "no configuration: no daemon answers at /run/signpost/signpost.sock (only root and its " +
        "group may ask), and /etc/signpost/config.yaml does not exist: start signpost, or name the " +
        `cluster with ${flags}`,
      ],
      warnings: [],
    });
    const inPod = { environment: { KUBERNETES_SERVICE_HOST: "10.96.0.1" } };
    assertEquals((await onNode(words, inPod)).isSame, true);
  }
  const { isSame, lines } = await onNode("cleanup", {});
  assertEquals([isSame, lines], [true, []]);
});

Deno.test("a broken file of the node does not prevent cleanup", async () => {
  const { result } = await onNode("verify", { file: `${HEAD}mode: 7\n` });
  if (result.type !== "errors") throw new Error(result.type);
  assertEquals(result.errors.length, 1);
  assertEquals(
    result.errors[0]?.startsWith(
      `the configuration of this node (${NODE_FILE}): ${NODE_FILE}: mode: `,
    ),
    true,
  );
  assertEquals((await onNode("cleanup", { file: `${HEAD}mode: 7\n` })).isSame, true);
});
