import { assertEquals, assertStringIncludes } from "@std/assert";
import denoJson from "../../deno.json" with { type: "json" };
import { execute, run } from "../support/command.ts";
import { EXAMPLES } from "./examples.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const containerfile = await Deno.readTextFile(`${EXAMPLES}install/Containerfile`);
/** What `image-root.sh` is given, after the folder. */
const contents = (/image-root\.sh \/root-of-image ([^]*?)\n\n/.exec(containerfile)?.[1] ?? "")
  .split(/[\s\\]+/).filter((word) => word !== "");
const programs = contents.filter((path) => !path.startsWith("/"));

/** The image's files but for signpost itself, in a folder that goes with it. */
async function makeImage() {
  const folder = await Deno.makeTempDir({ prefix: "signpost-image-" });
  const files = contents.filter((path) => path !== "/usr/local/bin/signpost");
  await run(["sh", `${EXAMPLES}install/image-root.sh`, folder, ...files]);
  await Deno.mkdir(`${folder}/run`);
  return {
    folder,
    /** Runs a program with the image as its root, in a network namespace of its own. */
    run: (program: string, args: readonly string[], stdin = "") =>
      execute(["unshare", "-n", "chroot", folder, program, ...args], { stdin }),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test("the image has each program that signpost may run", () => {
  assertEquals(programs.sort(), [...denoJson.permissions.default.run].sort());
});

Deno.test("the image's base is named by its digest, and the digest by who builds it", async () => {
  const bases = [...containerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
  assertEquals(bases, ["docker.io/library/debian@${DEBIAN_DIGEST}", "scratch"]);
  assertStringIncludes(containerfile, "\nARG DEBIAN_DIGEST\n");
  const copied = [...containerfile.matchAll(/^COPY (\w\S*)/gm)].map(([, path]) => path ?? "");
  assertEquals(copied, ["dist/", "examples/install/image-root.sh"]);
  await Deno.stat(ROOT + copied[1]);
});

Deno.test("every program of the image runs there, and takes signpost's rules", async () => {
  await using image = await makeImage();
  const missing: string[] = [];
  for (const program of programs) {
    const { code, stderr } = await image.run(program, [program === "ip" ? "-V" : "--version"]);
    // It runs, and this machine's kernel may be one without IPVS.
    if (program === "ipvsadm" && stderr.startsWith("Can't initialize ipvs")) continue;
    if (code !== 0) missing.push(`${program}: ${stderr}`);
  }
  assertEquals(missing, []);

  const nft = await Deno.readTextFile(`${ROOT}tests/testdata/golden/dual-stack.nftables`);
  assertEquals(await image.run("nft", ["-c", "-f", "-"], nft), { code: 0, stdout: "", stderr: "" });
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
    const { code, stderr } = await image.run(`iptables-${backend}-restore`, ["--test"], rules);
    assertEquals({ backend, code, stderr }, { backend, code: 0, stderr: "" });
  }
  assertEquals((await image.run("conntrack", ["--count"])).code, 0);
});
