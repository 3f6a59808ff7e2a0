import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  bootSystemd,
  canRunSystemd,
  type PrivateSystemd,
} from "../observe/support/private_systemd.ts";
import { commandsOf } from "../docs/guides.ts";
import { run } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { makeFolder, type TestFolder } from "../support/folder.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Makes the folders that an installation writes to writable, in this systemd alone; it has no journal. */
const OPEN_FOLDERS = `
set -e
mkdir /opt/units /opt/upper /opt/work
mount --bind /etc/systemd/system /opt/units
mount -t overlay overlay -o lowerdir=/etc,upperdir=/opt/upper,workdir=/opt/work /etc
mount --bind /opt/units /etc/systemd/system
mount -t tmpfs tmpfs /usr/local/bin
mkdir /etc/systemd/system/signpost.service.d
printf '[Service]\\nStandardError=append:/opt/log\\n' > /etc/systemd/system/signpost.service.d/log.conf
`;

/** As docs/install/bare-metal.md has it. There is no API server here, so the objects come from a folder. */
const INSTALL = `
set -e
cd /opt/checkout
${await commandsOf("bare-metal.md", "files")}
${await commandsOf("bare-metal.md", "start")}
`;

/** Rules in the place of kube-proxy's. */
const KUBE_PROXY_RULES = `
table ip kube-proxy {
  chain services { }
  chain nat-prerouting {
    type nat hook prerouting priority -100
    jump services
  }
}
table ip6 kube-proxy {
  chain services { }
}
`;

/** Makes a folder with what an installation takes; the program is bundled, as the compile task does it. */
async function makeRelease(): Promise<TestFolder> {
  const folder = await makeFolder("release");
  const { path } = folder;
  const files = ["examples", "systemd", "deno.json"].map((name) => ROOT + name);
  await run(["cp", "-r", ...files, path]);
  const flags = ["-q", "--config", `${ROOT}deno.json`, "-o", `${path}/main.js`];
  await run([Deno.execPath(), "bundle", ...flags, `${ROOT}main.ts`]);
  await Deno.writeTextFile(
    `${path}/signpost`,
    "#!/bin/sh\nexport DENO_DIR=/var/lib/signpost/deno\n" +
      "case $1 in\n  cleanup | status) ;;\n" +
      '  *) set -- "$@" --manifests=/opt/checkout/examples --hostname-override=node-1 ;;\nesac\n' +
      'exec /opt/deno run -qP --no-lock --config /opt/checkout/deno.json /opt/checkout/main.js "$@"\n',
  );
  await run(["chmod", "-R", "a+rX", path]);
  return folder;
}

const shell = (systemd: PrivateSystemd, script: string) => systemd.run("sh", "-c", script);

Deno.test({
  name: "bare-metal.md's commands take a node from kube-proxy to signpost, then back",
  ignore: !await canRunSystemd(),
  fn: async () => {
    await using release = await makeRelease();
    await using systemd = await bootSystemd(release.path);
    const tables = () => systemd.run("nft", "list", "tables");
    await shell(systemd, OPEN_FOLDERS);
    await shell(systemd, `nft -f - <<'END'\n${KUBE_PROXY_RULES}\nEND`);

    await shell(systemd, INSTALL).catch(async (cause: Error) => {
      throw new Error(await shell(systemd, "cat /opt/log; systemctl status signpost || true"), {
        cause,
      });
    });
    assertStringIncludes(
      await systemd.run("systemctl", "status", "signpost"),
      "active (running)",
    );
    assertEquals(await tables(), "table inet signpost\n");
    await eventually("the answer of /healthz", async () => {
      return (await shell(systemd, "curl -s http://127.0.0.1:10256/healthz || true"))
        .includes('"healthy":true');
    });

    await shell(systemd, "install -m 0755 /opt/checkout/signpost /usr/local/bin/signpost");
    await systemd.run("systemctl", "restart", "signpost");
    assertEquals(await tables(), "table inet signpost\n");

    const back = (await commandsOf("bare-metal.md", "back")).split("\n\n");
    await shell(systemd, back[0] ?? "");
    assertEquals(await tables(), "table inet signpost\n");
    await shell(systemd, back.slice(1).join("\n"));
    assertEquals(await tables(), "");
  },
});
