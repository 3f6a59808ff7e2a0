/** The files of the container image in a folder, with this checkout in the place of the binary. */
import { platformOf } from "../../tools/image/platform.ts";
import { inTree } from "../../tools/package/tree.ts";
import { TARGETS, V8_FLAGS } from "../../tools/compile/arguments.ts";
import { run } from "./command.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Brings its own shell, since the image has none. The process has the name of the command, as a binary's. */
const STAND_IN = `#!/opt/sh
export DENO_DIR=/opt/cache DENO_NO_UPDATE_CHECK=1
exec /opt/\${0##*/} run -qP --no-lock --v8-flags=${V8_FLAGS} --config /opt/deno.json /opt/main.js "$@"
`;

/** Makes the image's files, and keeps them for as long as `use` takes. */
export async function withImage(use: (root: string) => Promise<void>): Promise<void> {
  const scratch = await Deno.makeTempDir({ prefix: "signpost-image-" });
  try {
    const [target] = TARGETS;
    const { layers } = await platformOf({ target, path: Deno.execPath() }, scratch);
    const files = layers.flatMap((layer) => layer.files).filter(({ path }) =>
      path !== "usr/local/bin/signpost"
    );
    const bundle = ["-q", "--config", `${ROOT}deno.json`, "-o", `${scratch}/main.js`];
    await run([Deno.execPath(), "bundle", ...bundle, `${ROOT}main.ts`]);
    const read = async (path: string, source: string, mode: number) => ({
      path,
      data: await Deno.readFile(source),
      mode,
    });
    const standIn = [
      { path: "usr/local/bin/signpost", data: STAND_IN, mode: 0o755 },
      await read("opt/sh", await Deno.realPath("/bin/sh"), 0o755),
      await read("opt/deno", Deno.execPath(), 0o755),
      { path: "opt/kube-proxy", data: "deno", mode: "link" as const },
      { path: "opt/signpost", data: "deno", mode: "link" as const },
      await read("opt/main.js", `${scratch}/main.js`, 0o644),
      await read("opt/deno.json", `${ROOT}deno.json`, 0o644),
      ...["dev/", "proc/", "sys/"].map((path) => ({ path, data: "" })),
    ];
    await inTree([...files, ...standIn], 0, use);
  } finally {
    await Deno.remove(scratch, { recursive: true });
  }
}
