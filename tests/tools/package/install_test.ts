import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  bootSystemd,
  canRunSystemd,
  type PrivateSystemd,
} from "../../observe/support/private_systemd.ts";
import { run } from "../../support/command.ts";
import { lacksNfpm, makeOpenFolder, makePackages } from "./support.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

/** The packages that ours depends on, as they are on this machine. */
const DEPENDENCIES = ["libc6", "libgcc-s1", "nftables", "conntrack", "procps"];

/**
 * A root of its own for dpkg, in this systemd alone: /usr and /etc are laid over the machine's, the
 * folders of units stay apart, dpkg knows no packages but those above.
 */
const OPEN_ROOT = `
set -e
mkdir /opt/upper /opt/work /opt/admin-units /opt/units
mount --bind /etc/systemd/system /opt/admin-units
mount --bind /lib/systemd/system /opt/units
for folder in etc usr; do
  mkdir /opt/upper/$folder /opt/work/$folder
  mount -t overlay overlay -o lowerdir=/$folder,upperdir=/opt/upper/$folder,workdir=/opt/work/$folder /$folder
done
mount --bind /opt/admin-units /etc/systemd/system
mount --bind /opt/units /lib/systemd/system
mkdir -p /var/log /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers
cp /opt/checkout/status /var/lib/dpkg/status
touch /var/lib/dpkg/available
for name in ${DEPENDENCIES.join(" ")}; do : > /var/lib/dpkg/info/$name.list; done
`;

/** This systemd has no journal; and it tells what the kernel has between two daemons. */
const DROP_IN = `[Service]
StandardError=append:/opt/log
ExecStartPre=+/bin/sh -c 'nft list tables >> /opt/between'
`;

const CONFIGURE = `
set -e
mkdir /etc/systemd/system/signpost.service.d
cp /opt/checkout/drop-in.conf /etc/systemd/system/signpost.service.d/test.conf
echo 'SIGNPOST_FLAGS=--manifests=/opt/checkout/examples --hostname-override=node-1' > /etc/default/signpost
install -D -m 0600 /usr/share/doc/signpost/examples/kubeconfig.yaml /etc/signpost/kubeconfig
systemctl daemon-reload
systemctl enable --now signpost.service
`;

/** A folder with an older and a newer package; their binary is a script that runs the bundle with Deno. */
async function makeReleases(folder: string): Promise<{ old: string; new: string }> {
  await run(["cp", "-r", `${ROOT}examples`, `${ROOT}deno.json`, folder]);
  const flags = ["-q", "--config", `${ROOT}deno.json`, "-o", `${folder}/main.js`];
  await run([Deno.execPath(), "bundle", ...flags, `${ROOT}main.ts`]);
  const make = async (version: string) => {
    const binary = `${folder}/signpost`;
    await Deno.writeTextFile(
      binary,
      `#!/bin/sh\n# ${version}\nexport DENO_DIR=/var/lib/signpost/deno\n` +
        'exec /opt/deno run -qP --no-lock --config /opt/checkout/deno.json /opt/checkout/main.js "$@"\n',
    );
    return (await makePackages(folder, { binary, version })).deb;
  };
  const releases = { old: await make("0.1.0"), new: await make("0.2.0") };
  const format = "Package: ${Package}\nStatus: ${Status}\nArchitecture: ${Architecture}\n" +
    "Version: ${Version}\nMaintainer: x <x@x.x>\nDescription: x\n\n";
  const status = await run(["dpkg-query", "-W", `-f=${format}`, ...DEPENDENCIES]);
  await Deno.writeTextFile(`${folder}/status`, status);
  await Deno.writeTextFile(`${folder}/drop-in.conf`, DROP_IN);
  await run(["chmod", "-R", "a+rX", folder]);
  return releases;
}

const shell = (systemd: PrivateSystemd, script: string) => systemd.run("sh", "-c", script);

Deno.test({
  name: "the .deb installs without starting",
  ignore: lacksNfpm || !await canRunSystemd(),
  fn: async () => {
    await using folder = await makeOpenFolder();
    const releases = await makeReleases(folder.path);
    await using systemd = await bootSystemd(folder.path);
    const tables = () => systemd.run("nft", "list", "tables");
    const dpkg = (...args: string[]) => shell(systemd, `dpkg ${args.join(" ")} 2>&1`);
    const exists = async (path: string) =>
      (await shell(systemd, `[ -e ${path} ] && echo yes || echo no`)).trim() === "yes";
    await shell(systemd, OPEN_ROOT);

    const installed = await dpkg("--install", `/opt/checkout/${releases.old}`);
    assertStringIncludes(installed, "signpost is not started yet");
    assertEquals(await systemd.show("signpost", "ActiveState", "UnitFileState"), {
      ActiveState: "inactive",
      UnitFileState: "disabled",
    });
    assertEquals(await tables(), "");

    await shell(systemd, CONFIGURE).catch(async (cause: Error) => {
      throw new Error(await shell(systemd, "cat /opt/log"), { cause });
    });
    assertEquals(await tables(), "table inet signpost\n");
    const before = await systemd.show("signpost", "MainPID");

    await shell(systemd, ": > /opt/between");
    const upgraded = await dpkg("--install", `/opt/checkout/${releases.new}`);
    assertEquals(upgraded.includes("signpost is not started yet"), false);
    assertStringIncludes(await shell(systemd, "cat /usr/bin/signpost"), "# 0.2.0");
    assertEquals(await shell(systemd, "cat /opt/between"), "table inet signpost\n");
    assertEquals(await systemd.show("signpost", "ActiveState"), { ActiveState: "active" });
    assertEquals(before.MainPID === (await systemd.show("signpost", "MainPID")).MainPID, false);
    assertStringIncludes(await shell(systemd, "cat /etc/default/signpost"), "--manifests");

    const removed = await dpkg("--remove", "signpost");
    assertStringIncludes(removed, "signpost's rules stay in the kernel");
    assertEquals(await tables(), "table inet signpost\n");
    for (const path of ["/usr/bin/signpost", "/lib/systemd/system/signpost.service"]) {
      assertEquals(await exists(path), false, path);
    }
    assertEquals(
      await exists("/etc/systemd/system/multi-user.target.wants/signpost.service"),
      false,
    );
    for (const path of ["/etc/signpost/config.yaml", "/var/lib/signpost"]) {
      assertEquals(await exists(path), true, path);
    }

    await dpkg("--purge", "signpost");
    for (
      const path of ["/etc/signpost/config.yaml", "/etc/default/signpost", "/var/lib/signpost"]
    ) {
      assertEquals(await exists(path), false, path);
    }
    // The administrator's own credentials are not the package's.
    assertEquals(await exists("/etc/signpost/kubeconfig"), true);
    assertEquals(await tables(), "table inet signpost\n");
  },
});
