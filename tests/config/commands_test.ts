import { assertEquals, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../lib/config/commands.ts";
import { casesOf, wordsOf } from "../support/table.ts";
import { errorsOf, helpOf, load, runOf } from "./support.ts";

const EXPLAIN = {
  name: "explain",
  namespace: "",
  from: "",
  trace: false,
  probe: false,
  conntrack: false,
  history: false,
  timeout: 10_000,
  output: "table",
};

/** Command lines that are right, and what they ask for; of explain, what is not the default. */
const RIGHT = casesOf(`
explain shop/web => {"target":{"type":"service","namespace":"shop","name":"web"}}
explain svc/web:http => {"target":{"type":"service","name":"web","port":"http"}}
explain -v web -n shop => {"namespace":"shop","target":{"type":"service","namespace":"shop","name":"web"}}
explain shop/web:http --conntrack -ojson => {"conntrack":true,"output":"json","target":{"type":"service","namespace":"shop","name":"web","port":"http"}}
explain web.shop.svc.cluster.local => {"target":{"type":"service","namespace":"shop","name":"web"}}
explain web.shop:http => {"target":{"type":"service","namespace":"shop","name":"web","port":"http"}}
explain [FD00:0::A] => {"target":{"type":"address","address":"fd00::a"}}
explain 192.168.0.2:30080 => {"target":{"type":"address","address":"192.168.0.2","destination":{"address":"192.168.0.2","port":30080,"protocol":"tcp"}}}
explain 10.96.0.10:80 --from=pod => {"from":"pod","target":{"type":"packet","address":"10.96.0.10","port":80,"protocol":"tcp"}}
explain 10.1.0.7 to shop/web:53/UDP => {"target":{"type":"packet-to-service","source":"10.1.0.7","service":{"type":"service","namespace":"shop","name":"web","port":"53"},"protocol":"udp"}}
explain 10.1.0.7 -> 10.96.0.10:80/udp => {"target":{"type":"packet","source":"10.1.0.7","address":"10.96.0.10","port":80,"protocol":"udp"}}
explain --trace '10.1.0.7 -> 10.96.0.10:80' => {"trace":true,"target":{"type":"packet","source":"10.1.0.7","address":"10.96.0.10","port":80,"protocol":"tcp"}}
explain fd00::7 to [FD00:0::A]:53/SCTP --from=pod => {"from":"pod","target":{"type":"packet","source":"fd00::7","address":"fd00::a","port":53,"protocol":"sctp"}}
explain --from node to 10.96.0.10:80/tcp => {"from":"node","target":{"type":"packet","address":"10.96.0.10","port":80,"protocol":"tcp"}}
explain '-> 10.96.0.10:80/tcp' --from external => {"from":"external","target":{"type":"packet","address":"10.96.0.10","port":80,"protocol":"tcp"}}
check => {"name":"check","output":"table"}
check -o json => {"name":"check","output":"json"}
verify => {"name":"verify","fix":false,"timeout":10000,"output":"table"}
verify --timeout 1m30s => {"name":"verify","fix":false,"timeout":90000,"output":"table"}
verify --fix -o yaml => {"name":"verify","fix":true,"timeout":10000,"output":"yaml"}
status --watch => {"name":"status","watch":true,"output":"table","namespace":""}
top => {"name":"top","once":false,"output":"table","namespace":"","service":""}
top --once -o json => {"name":"top","once":true,"output":"json","namespace":"","service":""}
diff --manifests a.yaml b.yaml - => {"name":"diff","manifests":["a.yaml","b.yaml","-"],"timeout":10000,"output":"table"}
completions zsh => {"name":"completions","shell":"zsh"}
completions zsh -- '' => {"name":"completions","shell":"zsh","line":[""]}
completions zsh --v=1 -- explain --nope -- -v => {"name":"completions","shell":"zsh","line":["explain","--nope","--","-v"]}
version => {"name":"version"}
licenses => {"name":"licenses"}
`);

for (const [line, command] of RIGHT) {
  Deno.test(`signpost ${line} is understood`, async () => {
    const { question: _, ...read } = { question: "", ...runOf(await load(wordsOf(line))).command };
    const defaults: Readonly<Record<string, unknown>> = read.name === "explain" ? EXPLAIN : {};
    const asked: unknown = { ...defaults, ...JSON.parse(command) };
    assertEquals(JSON.parse(JSON.stringify(read)), asked);
  });
}

const SERVICE_OR_PACKET =
  "give a Service (name, namespace/name, namespace/name:port or its address) or a packet (IP or POD to IP:PORT/PROTOCOL)";

/** Command lines that are wrong, and the one line that says so. */
const WRONG = casesOf(`
explain => explain: needs an argument: ${SERVICE_OR_PACKET}
explain -n shop dev/web => explain: "dev/web": --namespace names another namespace, shop
explain web -n 'a b' => --namespace: must be a name: letters, digits, '-' and '.', at most 253, is "a b"
explain 'shop/We b' => explain: "b": unexpected word; ${SERVICE_OR_PACKET}
explain shop/\$(id) => explain: "shop/\$(id)": "\$(id)" is not a name
explain 10.1.0.7 - => explain: the shell took > for a redirection: write to, or '->' in quotes
explain to 10.96.0.10:80/tcp => explain: needs the packet's source: an address before to, or --from
explain 10.1.0.7 to 10.96.0.10:0 => explain: "10.96.0.10:0": must be an address and a port, such as 10.96.0.10:80/tcp or [fd00::a]:53/udp
explain 10.244.0.300 to 10.96.0.10:80 => explain: "10.244.0.300": the source must be an IP address or a pod
explain svc/web/0 to 10.96.0.10:80 => explain: "svc/web/0": the source must be an IP address or a pod
explain fd00::1 to 10.96.0.10:80 => explain: fd00::1 and 10.96.0.10 are of different IP families
explain to web:80 => explain: needs the packet's source: an address before to, or --from
explain 10.1.0.7 to web:80/icmp => explain: "web:80/icmp": the protocol must be tcp, udp or sctp
explain -n dev web.shop => explain: "web.shop": --namespace names another namespace, dev
explain a/b --from=pod => --from: is only for packets
explain 10.96.0.10 --from=pod => --from: is only for packets
explain a/b --trace => --trace: is only for packets
diff => diff: needs the objects that might be applied: --manifests FILE
completions => completions: needs the name of a shell: give bash, zsh or fish
completions csh => completions: "csh": no such shell; give bash, zsh or fish
`);

for (const [line, message] of WRONG) {
  Deno.test(`signpost ${line} is one clear error`, async () => {
    assertEquals(errorsOf(await load(wordsOf(line))), [message]);
  });
}

for (const command of COMMANDS) {
  Deno.test(`signpost ${command} --help has usage, examples and exit codes`, async () => {
    const help = helpOf(await load([command, "--help"]));
    for (const part of ["Usage:\n", "\nExamples:\n", "\nExit codes:\n"]) {
      assertStringIncludes(help, part);
    }
  });
}

Deno.test("help without a command is an overview of all commands", async () => {
  for (const argv of [["help"], ["--help"], ["-h"], ["help", "--help"]]) {
    const help = helpOf(await load(argv));
    for (const name of COMMANDS) assertStringIncludes(help, `\n  ${name} `);
    assertEquals(help.includes("--kubeconfig"), false);
  }
});

Deno.test("help COMMAND prints the command's page", async () => {
  assertEquals(await load(["help", "explain"]), await load(["explain", "--help"]));
  assertEquals(errorsOf(await load(["help", "explian"])), [
    'help: "explian": unknown command or unexpected word (did you mean explain?)',
  ]);
  assertEquals(errorsOf(await load(["hlp"])), [
    '"hlp": unknown command or unexpected word (did you mean help?)',
  ]);
});

Deno.test("the page of a command shows its own flags first", async () => {
  const help = helpOf(await load(["status", "--help"]));
  const flags = [...help.matchAll(/^ {2}(?:-\w, )?--([a-z-]+)/gm)].map(([, name]) => name);
  assertEquals(flags, ["output", "watch", "namespace", "help", "socket"]);
});

Deno.test("the help of a flag ends with the default of its setting", async () => {
  const help = helpOf(await load(["help", "run"]));
  for (const value of ["24h", "5m", "127.0.0.1:10249", "adaptive", "-999"]) {
    assertStringIncludes(help, ` Default ${value}.\n`);
  }
});

Deno.test("an error of the command line names the help, an error of the file does not", async () => {
  const helpFor = async (...argv: readonly string[]) => {
    const invocation = await load(argv);
    return invocation.type === "errors" ? invocation.help : "no error";
  };
  assertEquals(await helpFor("explain"), "help explain");
  assertEquals(await helpFor("top", "--onec"), "help top");
  assertEquals(await helpFor("topp"), "help");
  assertEquals(await helpFor("help", "topp"), "help");
  assertEquals(await helpFor("--config", "/nowhere/at-all.yaml"), undefined);
});
