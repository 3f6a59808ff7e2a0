/** Reads the files of `examples/`. */
import { parseAll } from "@std/yaml";
import type { ApiObject } from "../support/pipeline.ts";

export const EXAMPLES = new URL("../../examples/", import.meta.url).pathname;

export async function readExample(name: string): Promise<ApiObject[]> {
  return parseAll(await Deno.readTextFile(EXAMPLES + name)) as ApiObject[];
}

/** The objects of all files that `--manifests examples/` takes. */
export async function readExamples(): Promise<ApiObject[]> {
  const objects: ApiObject[] = [];
  for await (const { name } of Deno.readDir(EXAMPLES)) {
    if (name.endsWith(".yaml")) objects.push(...await readExample(name));
  }
  return objects;
}
