/** Checks objects against the types that are generated from Kubernetes' API. */
import type { ApiObject } from "../support/pipeline.ts";
import { execute } from "../support/command.ts";
import { makeFolder } from "../support/folder.ts";

const DENO_JSON = new URL("../../deno.json", import.meta.url).pathname;

/** The module of `kubernetes-types` that has each API group and version. */
const MODULES: Readonly<Record<string, string>> = {
  v1: "core/v1",
  "apps/v1": "apps/v1",
  "rbac.authorization.k8s.io/v1": "rbac/v1",
};

/**
 * Returns the compiler's errors about these objects; empty if they are right.
 *
 * As object literals they may have no field that their type does not know.
 */
export async function typeErrors(objects: readonly ApiObject[]): Promise<string> {
  const source = objects.map((object, i) => {
    const module = MODULES[String(object["apiVersion"])];
    const type = `import("kubernetes-types/${module}").${object.kind}`;
    return `export const object${i}: ${type} = ${JSON.stringify(object, undefined, 2)};\n`;
  });
  await using folder = await makeFolder("objects");
  const file = `${folder.path}/objects.ts`;
  await Deno.writeTextFile(file, source.join("\n"));
  const command = [Deno.execPath(), "check", "-q", "--config", DENO_JSON, file];
  const { code, stdout, stderr } = await execute(command, { env: { NO_COLOR: "1" } });
  return code === 0 ? "" : stdout + stderr;
}
