import { assertEquals, assertStringIncludes } from "@std/assert";
import { unpackedPackages } from "../../tools/unpacked.ts";
import { run } from "../support/command.ts";
import { blocksOf, commandsOf, GUIDES, onOwnMachine, ROOT } from "./guides.ts";

/** The texts of a guide's blocks with this mark. */
async function blocks(guide: string, mark: string): Promise<string[]> {
  return blocksOf(await Deno.readTextFile(GUIDES + guide))
    .filter((block) => block.mark === mark).map(({ text }) => text);
}

/** Runs a guide's commands; what they printed, or what went wrong. */
async function walk(script: string): Promise<string> {
  const { code, stdout, stderr } = await onOwnMachine(script);
  assertEquals(code, 0, `${stdout}\n${stderr}`);
  return stdout;
}

Deno.test("edge.md: a shell starts it without /var/lib, hands it over, and cleans up", async () => {
  const noState = "mount -t tmpfs -o ro tmpfs /var/lib\n";
  const printed = await walk(`${noState}${await commandsOf("edge.md", "files")}
${await commandsOf("edge.md", "shell")}
echo "left: $(nft list tables)"`);
  assertStringIncludes(printed, "table inet signpost\n");
  assertStringIncludes(printed, '"healthy":true');
  assertStringIncludes(printed, "left: \n");
});

Deno.test("edge.md: OpenRC starts it, has it read its configuration again, and stops it", async () => {
  const openrc = await unpackedPackages(["openrc", "librc1", "libeinfo1"]);
  if (openrc === undefined) {
    // deno-lint-ignore no-console
    console.log("Debian's openrc cannot be had here: the service file is only read.");
    await run(["sh", "-n", `${ROOT}examples/install/openrc/signpost`]);
    return;
  }
  const installation = `
for folder in ${openrc.join(" ")}; do
  for part in lib sbin bin; do
    [ ! -d $folder/$part ] || cp -a $folder/$part/. /usr/$part/
  done
  [ ! -d $folder/usr ] || cp -a $folder/usr/. /usr/
  [ ! -d $folder/etc ] || cp -a $folder/etc/. /etc/
done
for state in starting started stopping inactive wasinactive failed hotplugged daemons options exclusive \\
  scheduled init.d tmp; do mkdir -p /run/openrc/$state; done
touch /run/openrc/softlevel
trap 'cat /var/log/signpost.log >&2' EXIT
`;
  const ready = "until curl -sf http://127.0.0.1:10256/healthz > /dev/null; do sleep 0.2; done\n";
  const [install, reload, stop] = await blocks("edge.md", "openrc");
  const printed = await walk(`${installation}
${await commandsOf("edge.md", "files")}
${install}
${ready}
echo "pid: $(pgrep -xc deno)"
sed -i 's/minSyncPeriod: 1s/minSyncPeriod: 2s/' /etc/signpost/config.yaml
${reload}
until curl -s http://127.0.0.1:10249/configz | grep -q '"minSyncPeriod":"2s"'; do sleep 0.2; done
kill -9 $(pgrep -x deno)
sleep 1
${ready}
${stop}`);
  assertStringIncludes(printed, "status: started");
  assertStringIncludes(printed, "pid: 1\n");
  assertStringIncludes(printed.slice(printed.indexOf("pid:")), "table inet signpost\n");
});
