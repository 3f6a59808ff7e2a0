/** The installation guides of `docs/install`, and a machine of one's own to walk them on. */
import { V8_FLAGS } from "../../tools/compile/arguments.ts";
import { type CommandResult, execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

export const ROOT = new URL("../../", import.meta.url).pathname;
export const GUIDES = `${ROOT}docs/install/`;

/** A piece of a guide that is set as code: its language, what else its first line says, its text. */
export interface Block {
  readonly language: string;
  readonly mark: string;
  readonly text: string;
}

export function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^```(\w+)(?: (\w+))?\n([^]*?)^```$/gm)]
    .map(([, language = "", mark = "", code = ""]) => ({ language, mark, text: code }));
}

/** The commands of a guide that are marked with a word: ```` ```sh walk ````. */
export async function commandsOf(guide: string, mark: string): Promise<string> {
  const blocks = blocksOf(await Deno.readTextFile(GUIDES + guide));
  return blocks.filter((block) => block.language === "sh" && block.mark === mark)
    .map(({ text }) => text).join("\n");
}

/**
 * The checkout's signpost with its own permissions, where the binary belongs. There is no API server
 * here, so the objects come from `examples/`.
 */
const SIGNPOST = `#!/bin/sh
case $1 in
  cleanup | status | completions) set -- "$@" ;;
  *) set -- "$@" --manifests=${ROOT}examples --hostname-override=node-1 ;;
esac
exec ${Deno.execPath()} run -qP --v8-flags=${V8_FLAGS} --config ${ROOT}deno.json ${ROOT}main.ts "$@"
`;

/** /etc, /usr and the folders of state are the machine's own; $1 is a folder for what is written. */
const OWN_MACHINE = `
set -e
export DENO_DIR="$2" HOME="$3" PATH="/usr/local/sbin:/usr/local/bin:$PATH"
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
for folder in etc usr; do
  mkdir "$1/$folder" "$1/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder,workdir=$1/$folder.work" "/$folder"
done
for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
mount -t proc proc /proc
mkdir -p /usr/local/bin /usr/local/sbin
cat > /usr/local/bin/signpost <<'SIGNPOST'
${SIGNPOST}SIGNPOST
chmod 0755 /usr/local/bin/signpost
ip link set lo up
# A new network namespace forwards nothing, unlike a node.
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
cd ${ROOT}
`;

/**
 * Runs a script on a machine of its own: namespaces for its network, processes and files, in which
 * `/usr/local/bin/signpost` is the checkout's. All that it starts ends with it.
 */
export async function onOwnMachine(script: string): Promise<CommandResult> {
  await using folder = await makeFolder("guide");
  const denoDir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
  const shell = ["sh", "-c", `${OWN_MACHINE}\n${script}`, "sh", folder.path, denoDir];
  return await execute([
    ...["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"],
    ...[...shell, Deno.env.get("HOME") ?? "/root"],
  ]);
}
