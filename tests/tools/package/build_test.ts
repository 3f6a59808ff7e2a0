import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import config from "../../../deno.json" with { type: "json" };
import { writeSums } from "../../../tools/package/build.ts";
import { packagesNeeded } from "../../../tools/libraries.ts";
import { installPrograms } from "../../../tools/programs.ts";
import { execute, run } from "../../support/command.ts";
import { lacksNfpm, makeOpenFolder, makePackages, RELEASE } from "./support.ts";

/** Any program file will do: what is in it is the runtime's business. */
const BINARY = "/bin/true";

Deno.test("packages of the same commit have the same bytes", { ignore: lacksNfpm }, async () => {
  await using folder = await makeOpenFolder();
  const make = async (name: string, mask: number) => {
    await Deno.mkdir(`${folder.path}/${name}`);
    const before = Deno.umask(mask);
    const { packages, archive } = await makePackages(`${folder.path}/${name}`, { binary: BINARY });
    Deno.umask(before);
    await writeSums(`${folder.path}/${name}`, [...packages, archive]);
    return await Deno.readTextFile(`${folder.path}/${name}/SHA256SUMS`);
  };
  const sums = await make("one", 0o022);
  assertEquals(await make("two", 0o077), sums);
  assertEquals(sums.replace(/^\w{64} {2}/gm, "").trim().split("\n"), [
    "signpost-0.1.0-1.x86_64.rpm",
    "signpost-0.1.0-r1.x86_64.apk",
    "signpost-0.1.0-x86_64-linux.tar.gz",
    "signpost_0.1.0-1_amd64.deb",
  ]);
  await run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], { cwd: `${folder.path}/one` });
});

Deno.test("the package has the machine's name in its metadata", { ignore: lacksNfpm }, async () => {
  await using folder = await makeOpenFolder();
  const { deb, packages } = await makePackages(folder.path, {
    binary: BINARY,
    target: "aarch64-unknown-linux-gnu",
    commit: { ...RELEASE.commit, isTagged: false },
  });
  assertEquals(packages, [
    "signpost_0.1.0~git20261118.0123456-1_arm64.deb",
    "signpost-0.1.0~git20261118.0123456-1.aarch64.rpm",
    "signpost-0.1.0_pre20261118-r1.aarch64.apk",
  ]);
  const field = (name: string) => run(["dpkg-deb", "--field", `${folder.path}/${deb}`, name]);
  assertEquals(await field("Architecture"), "arm64\n");
  assertMatch(
    await field("Depends"),
    /^libc6 \(>= 2\.\d+\), nftables \(>= 1\.0\.1\), conntrack, procps\n$/,
  );
  assertEquals(await field("Homepage"), `${config.repository}\n`);
  assertEquals(await field("Recommends"), "iptables, iproute2\n");
  assertEquals(await field("Suggests"), "bash-completion, ipvsadm, ipset\n");
  const conffiles = await run(["dpkg-deb", "--info", `${folder.path}/${deb}`, "conffiles"]);
  assertEquals(conffiles, "/etc/default/signpost\n/etc/signpost/config.yaml\n");
});

Deno.test("the package depends on what the runtime loads", async () => {
  const packages = await packagesNeeded(Deno.execPath());
  assertMatch(packages.join(", "), /^libc6 \(>= 2\.\d+\), libgcc-s1$/);
  await assertRejects(() => packagesNeeded("/usr/sbin/nft"), Error, "needs libnftables.so.1");
});

Deno.test("the package has its files in their places", { ignore: lacksNfpm }, async () => {
  await using folder = await makeOpenFolder();
  const { deb, archive } = await makePackages(folder.path, { binary: BINARY, jitless: true });
  const root = `${folder.path}/root`;
  await run(["dpkg-deb", "--extract", `${folder.path}/${deb}`, root]);
  const text = (path: string) => Deno.readTextFile(`${root}/${path}`);
  const unit = await text("lib/systemd/system/signpost.service");
  assertStringIncludes(unit, "\nExecStart=/usr/bin/signpost ");
  assertEquals(unit.includes("/usr/local"), false);
  assertStringIncludes(
    await text("lib/systemd/system/signpost.service.d/jitless.conf"),
    "\nMemoryDenyWriteExecute=yes\n",
  );
  const completions = [
    "bash-completion/completions/signpost",
    "zsh/vendor-completions/_signpost",
    "fish/vendor_completions.d/signpost.fish",
  ];
  for (const path of completions) {
    assertStringIncludes(await text(`usr/share/${path}`), "completions");
  }
  await run(["gzip", "--test", `${root}/usr/share/man/man1/signpost.1.gz`]);
  assertStringIncludes(await text("etc/default/signpost"), "SIGNPOST_FLAGS=");
  const copyright = await text("usr/share/doc/signpost/copyright");
  for (const name of ["ipaddr.js", "Deno"]) assertStringIncludes(copyright, `\n${name} `);
  assertEquals(copyright.includes("TERMS AND CONDITIONS FOR USE"), false);

  const listed = await run(["tar", "-tzf", `${folder.path}/${archive}`]);
  const top = "signpost-0.1.0+jitless-x86_64-linux";
  for (
    const name of [
      "signpost",
      "LICENSE",
      "NOTICES",
      "signpost.1",
      "examples/install/openrc/signpost",
      "systemd/signpost.service",
    ]
  ) {
    assertStringIncludes(listed, `${top}/${name}\n`);
  }
});

Deno.test(
  "a binary that compiles gets no drop-in that it would end by",
  { ignore: lacksNfpm },
  async () => {
    await using folder = await makeOpenFolder();
    const { deb } = await makePackages(folder.path, { binary: BINARY });
    const listed = await run(["dpkg-deb", "--contents", `${folder.path}/${deb}`]);
    assertEquals(listed.includes("jitless"), false);
  },
);

/** Checks what the unpacked packages of other systems have beside the unit and the completions of zsh. */
async function assertCommonFiles(root: string): Promise<void> {
  for (const path of ["usr/bin/signpost", "usr/share/man/man1/signpost.1.gz"]) {
    await Deno.stat(`${root}/${path}`);
  }
  for (const path of ["etc/signpost/config.yaml", "usr/share/doc/signpost/copyright"]) {
    assertMatch(await Deno.readTextFile(`${root}/${path}`), /\S/);
  }
  const { mode } = await Deno.stat(`${root}/usr/bin/signpost`);
  assertEquals((mode ?? 0) & 0o777, 0o755);
  await Deno.stat(`${root}/usr/share/zsh/site-functions/_signpost`);
}

Deno.test("the .rpm has the machine's name, dependencies and scripts", {
  ignore: lacksNfpm,
}, async () => {
  const problem = await installPrograms(["rpm", "rpm2cpio", "cpio"]);
  if (problem !== undefined) {
    await Deno.stderr.write(new TextEncoder().encode(`the .rpm is left out: ${problem}\n`));
    return;
  }
  await using folder = await makeOpenFolder();
  const { packages } = await makePackages(folder.path, { binary: BINARY, jitless: true });
  const file = `${folder.path}/${packages.find((name) => name.endsWith(".rpm"))}`;
  const query = async (...args: readonly string[]) =>
    (await run(["rpm", "--query", "--nosignature", "--package", ...args, file])).trim();
  assertEquals(
    await query("--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{BUILDHOST} %{URL}"),
    `signpost 0.1.0+jitless 1 x86_64 localhost ${config.repository}`,
  );
  const requires = await query("--requires");
  assertMatch(requires, /^glibc >= 2\.\d+$/m);
  for (const name of ["libgcc", "nftables >= 1.0.1", "conntrack-tools", "procps-ng"]) {
    assertStringIncludes(`\n${requires}\n`, `\n${name}\n`);
  }
  assertEquals(await query("--configfiles"), "/etc/default/signpost\n/etc/signpost/config.yaml");
  const scripts = await query("--scripts");
  for (const each of ["try-restart", "disable --now", "postuninstall"]) {
    assertStringIncludes(scripts, each);
  }
  const root = `${folder.path}/root`;
  await Deno.mkdir(root);
  await run(["sh", "-c", `rpm2cpio ${file} | cpio --quiet --no-absolute-filenames -idm`], {
    cwd: root,
  });
  await assertCommonFiles(root);
  const units = `${root}/usr/lib/systemd/system`;
  assertStringIncludes(
    await Deno.readTextFile(`${units}/signpost.service`),
    "\nExecStart=/usr/bin/signpost ",
  );
  await Deno.stat(`${units}/signpost.service.d/jitless.conf`);
});

Deno.test(
  "the .apk has the service of OpenRC",
  { ignore: lacksNfpm },
  async () => {
    await using folder = await makeOpenFolder();
    const { packages } = await makePackages(folder.path, { binary: BINARY });
    const file = packages.find((name) => name.endsWith(".apk")) ?? "";
    await run(["tar", "-xzf", file, "--ignore-zeros", "--warning=no-unknown-keyword"], {
      cwd: folder.path,
    });
    const about = await Deno.readTextFile(`${folder.path}/.PKGINFO`);
    for (const line of ["pkgver = 0.1.0-r1", "arch = x86_64", "depend = so:libc.so.6"]) {
      assertStringIncludes(about, `\n${line}\n`);
    }
    for (const script of ["post-install", "post-upgrade", "pre-deinstall"]) {
      await run(["sh", "-n", `${folder.path}/.${script}`]);
    }
    await assertCommonFiles(folder.path);
    const service = await Deno.readTextFile(`${folder.path}/etc/init.d/signpost`);
    assertStringIncludes(service, "\ncommand=/usr/bin/signpost\n");
    assertEquals(
      [...Deno.readDirSync(`${folder.path}/usr`)].some(({ name }) => name === "lib"),
      false,
    );
  },
);

Deno.test("lintian has nothing to say about the package", { ignore: lacksNfpm }, async () => {
  const problem = await installPrograms(["lintian"]);
  if (problem !== undefined) {
    // Machines without Debian's archive do without.
    await Deno.stderr.write(new TextEncoder().encode(`lintian is left out: ${problem}\n`));
    return;
  }
  await using folder = await makeOpenFolder();
  const { deb } = await makePackages(folder.path, { binary: BINARY });
  const { code, stdout } = await execute([
    "lintian",
    "--fail-on=error,warning",
    "--tag-display-limit=0",
    `${folder.path}/${deb}`,
  ]);
  assertEquals([code, stdout], [0, ""]);
});

Deno.test("the task says what to do without a binary", { ignore: lacksNfpm }, async () => {
  await using folder = await makeOpenFolder();
  const tool = new URL("../../../tools/package.ts", import.meta.url).pathname;
  const words = [Deno.execPath(), "run", "-qA", tool, `--dist=${folder.path}`];
  const empty = await execute(words);
  assertEquals([empty.code, empty.stderr], [
    1,
    `${folder.path} has no binary: run deno task compile\n`,
  ]);

  await Deno.copyFile(BINARY, `${folder.path}/signpost-x86_64-unknown-linux-gnu`);
  const made = await execute(words);
  assertEquals([made.code, made.stderr], [0, ""]);
  const names = [...Deno.readDirSync(folder.path)].map(({ name }) => name);
  const kinds = [".deb", ".rpm", ".apk", ".spdx.json", "linux.tar.gz", "kubectl-signpost.tar.gz"];
  for (const ending of kinds) {
    assertEquals(names.filter((name) => name.endsWith(ending)).length, 1, ending);
  }
  await run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], { cwd: folder.path });
});
