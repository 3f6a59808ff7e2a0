/** The objects that bring signpost into a cluster, in a form in which they can be compared. */
import { parse, parseAll } from "@std/yaml";
import type { ApiObject } from "../support/pipeline.ts";

/** Fields that Helm adds. */
const HELM = [
  "app.kubernetes.io/version",
  "app.kubernetes.io/managed-by",
  "helm.sh/chart",
  "checksum/config",
];

export function objectsIn(text: string): ApiObject[] {
  return (parseAll(text) as (ApiObject | null)[]).filter((object) => object !== null);
}

/** Objects by kind and name, files in ConfigMaps parsed, without their own labels and what Helm adds. */
export function comparable(objects: readonly ApiObject[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    objects.map(({ metadata: { name, namespace }, ...object }) =>
      [`${object.kind} ${name}`, clean({ ...object, namespace })] as const
    )
      .sort(([a], [b]) => a < b ? -1 : 1),
  );
}

/** The file of this name in the ConfigMap, as data. */
export function fileIn(objects: readonly ApiObject[], name: string): string {
  const data = objects.find(({ kind }) => kind === "ConfigMap")?.["data"];
  return (data as Readonly<Record<string, string>> | undefined)?.[name] ?? "";
}

function clean(value: unknown, key = ""): unknown {
  if (typeof value === "string") return key.endsWith(".yaml") ? parse(value) : value;
  if (Array.isArray(value)) return value.map((each) => clean(each));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .filter(([name]) => !HELM.includes(name))
    .map(([name, each]) => [name, clean(each, name)] as const)
    .filter(([name, each]) =>
      !(["labels", "annotations"].includes(name) && Object.keys(each as object).length === 0)
    );
  return Object.fromEntries(entries);
}
