import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { writeSums } from "../../../tools/package/build.ts";
import { packagesNeeded } from "../../../tools/libraries.ts";
import { installPrograms } from "../../../tools/programs.ts";
import { execute, run } from "../../support/command.ts";
import { makePackages, RELEASE, withFolder } from "./support.ts";

/** Any program file will do: what is in it is the runtime's business. */
const BINARY = "/bin/true";

Deno.test("packages of the same commit have the same bytes, whatever the umask and the folder", async () => {
  await withFolder(async (folder) => {
    const make = async (name: string, mask: number) => {
      await Deno.mkdir(`${folder}/${name}`);
      const before = Deno.umask(mask);
      const { deb, archive } = await makePackages(`${folder}/${name}`, { binary: BINARY });
      Deno.umask(before);
      await writeSums(`${folder}/${name}`, [deb, archive]);
      return await Deno.readTextFile(`${folder}/${name}/SHA256SUMS`);
    };
    const sums = await make("one", 0o022);
    assertEquals(await make("two", 0o077), sums);
    assertMatch(
      sums,
      /^\w{64} {2}signpost-0\.1\.0-x86_64-linux\.tar\.gz\n\w{64} {2}signpost_0\.1\.0-1_amd64\.deb\n$/,
    );
    await run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], { cwd: `${folder}/one` });
  });
});

Deno.test("the package has the machine's name, its dependencies, and conffiles", async () => {
  await withFolder(async (folder) => {
    const { deb } = await makePackages(folder, {
      binary: BINARY,
      target: "aarch64-unknown-linux-gnu",
      commit: { ...RELEASE.commit, isTagged: false },
    });
    assertEquals(deb, "signpost_0.1.0~git20261118.0123456-1_arm64.deb");
    const field = (name: string) => run(["dpkg-deb", "--field", `${folder}/${deb}`, name]);
    assertEquals(await field("Architecture"), "arm64\n");
    assertMatch(
      await field("Depends"),
      /^libc6 \(>= 2\.\d+\), nftables \(>= 1\.0\.1\), conntrack, procps\n$/,
    );
    assertEquals(await field("Recommends"), "iptables, iproute2\n");
    assertEquals(await field("Suggests"), "bash-completion, ipvsadm, ipset\n");
    const conffiles = await run(["dpkg-deb", "--info", `${folder}/${deb}`, "conffiles"]);
    assertEquals(conffiles, "/etc/default/signpost\n/etc/signpost/config.yaml\n");
  });
});

Deno.test("the package depends on what the runtime loads", async () => {
  const packages = await packagesNeeded(Deno.execPath());
  assertMatch(packages.join(", "), /^libc6 \(>= 2\.\d+\), libgcc-s1$/);
  await assertRejects(() => packagesNeeded("/usr/sbin/nft"), Error, "needs libnftables.so.1");
});

Deno.test("what is made between releases sorts before the next one", async () => {
  await run(["dpkg", "--compare-versions", "0.1.0~git20261118.0123456-1", "lt", "0.1.0-1"]);
});

Deno.test("the package has unit, completions, man page, default file and notices in their places", async () => {
  await withFolder(async (folder) => {
    const { deb, archive } = await makePackages(folder, { binary: BINARY, jitless: true });
    const root = `${folder}/root`;
    await run(["dpkg-deb", "--extract", `${folder}/${deb}`, root]);
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
    for (const name of ["ipaddr.js", "Deno"]) {
      assertStringIncludes(copyright, `\n${name} `);
    }
    assertEquals(copyright.includes("TERMS AND CONDITIONS FOR USE"), false);

    const listed = await run(["tar", "-tzf", `${folder}/${archive}`]);
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
});

Deno.test("a binary that compiles gets no drop-in that it would end by", async () => {
  await withFolder(async (folder) => {
    const { deb } = await makePackages(folder, { binary: BINARY });
    const listed = await run(["dpkg-deb", "--contents", `${folder}/${deb}`]);
    assertEquals(listed.includes("jitless"), false);
  });
});

Deno.test("lintian has nothing to say about the package", async () => {
  const problem = await installPrograms(["lintian"]);
  if (problem !== undefined) {
    // Machines without Debian's archive do without.
    await Deno.stderr.write(new TextEncoder().encode(`lintian is left out: ${problem}\n`));
    return;
  }
  await withFolder(async (folder) => {
    const { deb } = await makePackages(folder, { binary: BINARY });
    const { code, stdout } = await execute([
      "lintian",
      "--fail-on=error,warning",
      "--tag-display-limit=0",
      `${folder}/${deb}`,
    ]);
    assertEquals([code, stdout], [0, ""]);
  });
});

Deno.test("the task says what to do where there is no binary", async () => {
  await withFolder(async (folder) => {
    const tool = new URL("../../../tools/package.ts", import.meta.url).pathname;
    const words = [Deno.execPath(), "run", "-qA", tool, `--dist=${folder}`];
    const empty = await execute(words);
    assertEquals([empty.code, empty.stderr], [
      1,
      `${folder} has no binary: run deno task compile\n`,
    ]);

    await Deno.copyFile(BINARY, `${folder}/signpost-x86_64-unknown-linux-gnu`);
    const made = await execute(words);
    assertEquals([made.code, made.stderr], [0, ""]);
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    for (const ending of [".deb", ".spdx.json", ".tar.gz"]) {
      assertEquals(names.filter((name) => name.endsWith(ending)).length, 1, ending);
    }
    await run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], { cwd: folder });
  });
});
