import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import denoJson from "../../deno.json" with { type: "json" };
import { ENVIRONMENT } from "../../tools/compile/arguments.ts";
import { PROGRAMS } from "../../tools/image/root.ts";
import { execute, run } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";
import { withImage } from "../support/image.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** The start of a program file for aarch64, which loads nothing. */
function aarch64Binary(): Uint8Array {
  const bytes = new Uint8Array(64);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  bytes[18] = 183;
  return bytes;
}

/** Makes the image of two stand-ins for binaries. @returns what the task printed */
async function makeImage(folder: string, mask: number): Promise<string> {
  await Deno.copyFile("/bin/true", `${folder}/signpost-x86_64-unknown-linux-gnu`);
  await Deno.writeFile(`${folder}/signpost-aarch64-unknown-linux-gnu`, aarch64Binary());
  const before = Deno.umask(mask);
  try {
    const tool = [Deno.execPath(), "run", "-qA", `${ROOT}tools/image.ts`, `--dist=${folder}`];
    return await run([...tool, "--name=registry.test/signpost", "--version=0.1.0"]);
  } finally {
    Deno.umask(before);
  }
}

interface Descriptor {
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly architecture: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Reads a layout, and checks that each blob has the size and the digest by which it is named. */
class Layout {
  constructor(readonly folder: string) {}

  path({ digest }: Descriptor): string {
    return `${this.folder}/blobs/${digest.replace(":", "/")}`;
  }

  async blob<T>(descriptor: Descriptor): Promise<T> {
    const bytes = await this.bytes(descriptor);
    return JSON.parse(new TextDecoder().decode(bytes)) as T;
  }

  async bytes(descriptor: Descriptor): Promise<Uint8Array> {
    const bytes = await Deno.readFile(this.path(descriptor));
    const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    assertEquals({ digest, size: bytes.length }, {
      digest: descriptor.digest,
      size: descriptor.size,
    });
    return bytes;
  }
}

Deno.test("the image has each program that signpost may run", () => {
  assertEquals([...new Set(PROGRAMS)].sort(), [...denoJson.permissions.default.run].sort());
});

Deno.test("the image has the same bytes each time", async () => {
  await using folder = await makeFolder("image");
  const file = `${folder.path}/signpost-0.1.0-image.tar`;
  const sum = async () => await run(["sha256sum", file]);
  const printed = await makeImage(folder.path, 0o022);
  const first = await sum();
  await makeImage(folder.path, 0o077);
  assertEquals(await sum(), first);
  assertStringIncludes(printed, "amd64, Debian 13: ");
  assertStringIncludes(printed, "image.tar: registry.test/signpost:0.1.0, ");

  await Deno.mkdir(`${folder.path}/layout`);
  await run(["tar", "-xf", file, "-C", `${folder.path}/layout`]);
  const layout = new Layout(`${folder.path}/layout`);
  const top = JSON.parse(await Deno.readTextFile(`${layout.folder}/index.json`));
  const [named] = top.manifests as [Descriptor];
  assertEquals(named.annotations?.["io.containerd.image.name"], "registry.test/signpost:0.1.0");
  const index = await layout.blob<{ manifests: Descriptor[] }>(named);
  const architectures = index.manifests.map(({ platform }) => platform?.architecture);
  assertEquals(architectures, ["amd64", "arm64"]);
  for (const descriptor of index.manifests) {
    const manifest = await layout.blob<{ config: Descriptor; layers: Descriptor[] }>(descriptor);
    const config = await layout.blob<{
      config: { Entrypoint: string[]; Env: string[] };
      rootfs: { diff_ids: string[] };
    }>(manifest.config);
    assertEquals(config.config.Entrypoint, ["/usr/local/bin/signpost"]);
    assertEquals(config.config.Env.slice(1), ENVIRONMENT);
    const listings: string[] = [];
    for (const [i, layer] of manifest.layers.entries()) {
      await layout.bytes(layer);
      const unpacked = await run(["sh", "-c", `gzip -dc '${layout.path(layer)}' | sha256sum`]);
      assertEquals(`sha256:${unpacked.slice(0, 64)}`, config.rootfs.diff_ids[i]);
      listings.push(await run(["tar", "-tvzf", layout.path(layer)]));
    }
    assertStringIncludes(listings[1] ?? "", " usr/local/bin/kube-proxy -> signpost\n");
    // Scanners read these.
    for (const path of ["etc/os-release", "var/lib/dpkg/status.d/libc6"]) {
      assertStringIncludes(listings[0] ?? "", ` ${path}`);
    }
    const paths = listings.join("").split("\n").filter((line) => !line.startsWith("d"));
    const unneeded =
      /\/(?:sh|bash|apt[^/\s]*|dpkg[^/\s]*|perl\S*|libebt_\S*)$|^\S*[st]\S* .* usr\/bin\//;
    assertEquals(paths.filter((line) => unneeded.test(line)), []);
  }
});

Deno.test("every program of the image runs there", async () => {
  await withImage(async (root) => {
    const inImage = (program: string, args: readonly string[], stdin = "") =>
      execute(["unshare", "-n", "chroot", root, program, ...args], { stdin });
    const missing: string[] = [];
    for (const program of PROGRAMS) {
      const { code, stderr } = await inImage(program, [program === "ip" ? "-V" : "--version"]);
      // It runs, and this machine's kernel may be one without IPVS.
      if (program === "ipvsadm" && stderr.startsWith("Can't initialize ipvs")) continue;
      if (code !== 0) missing.push(`${program}: ${stderr}`);
    }
    assertEquals(missing, []);

    const nft = await Deno.readTextFile(`${ROOT}tests/testdata/golden/dual-stack.nftables`);
    assertEquals(await inImage("nft", ["-c", "-f", "-"], nft), { code: 0, stdout: "", stderr: "" });
    const rules = [
      "*nat",
      ":KUBE-SVC-A - [0:0]",
      "-A KUBE-SVC-A -p sctp -m sctp --dport 80 -m comment --comment a/b -m statistic " +
      "--mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80",
      "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE --random-fully",
      "COMMIT",
      "",
    ].join("\n");
    for (const backend of ["nft", "legacy"]) {
      const { code, stderr } = await inImage(`iptables-${backend}-restore`, ["--test"], rules);
      assertEquals({ backend, code, stderr }, { backend, code: 0, stderr: "" });
    }
    assertEquals((await inImage("conntrack", ["--count"])).code, 0);

    await run(["cp", "-r", `${ROOT}examples`, root]);
    const once = ["--once", "--manifests=/examples", "--proxy-mode=nftables"];
    const mounted = [
      "unshare",
      "-nm",
      "sh",
      "-c",
      'mount -t proc proc "$0/proc"; exec chroot "$0" "$@"',
    ];
    const { code, stdout, stderr } = await execute([
      ...mounted,
      root,
      "/usr/local/bin/kube-proxy",
      ...once,
      "--cluster-cidr=10.244.0.0/16",
      "--hostname-override=node-1",
    ]);
    assertEquals({ code, stderr }, { code: 0, stderr: "" });
    assertEquals((await inImage("nft", ["-c", "-f", "-"], stdout)).code, 0);
  });
});
