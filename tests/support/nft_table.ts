/** signpost's nftables table as the kernel holds it, comparable. */
import { run } from "./command.ts";

/**
 * Lists the table without handles and counts, in an order of its own: chains keep the order of their rules,
 * all else has none.
 *
 * @param prefix the command that leads into the namespace, for example `ip netns exec NAME`
 * @param stdin a script that is applied before
 */
export async function listTable(
  prefix: readonly string[],
  stdin?: string,
): Promise<readonly string[]> {
  const list = "nft -j list table inet signpost";
  const json = stdin === undefined
    ? await run([...prefix, ...list.split(" ")])
    : await run([...prefix, "sh", "-c", `nft -f - && ${list}`], { stdin });
  const { nftables } = JSON.parse(json) as { nftables: Record<string, unknown>[] };
  return sortObjects(nftables.filter((each) => !("metainfo" in each)).map(formatObject));
}

function formatObject(object: Record<string, unknown>): string {
  return JSON.stringify(object, (key, value) => {
    if (key === "handle") return undefined;
    return key === "elem" && Array.isArray(value)
      ? value.map((element) => JSON.stringify(element, withoutCounts)).sort()
      : value;
  });
}

/** Leaves the counts of an element out, which are not the script's. */
function withoutCounts(key: string, value: unknown): unknown {
  return key === "counter" ? null : value;
}

function sortObjects(objects: readonly string[]): string[] {
  const rules = objects.filter((each) => each.startsWith('{"rule"'));
  const byChain = Map.groupBy(rules, (rule) => /"chain":"[^"]*"/.exec(rule)?.[0]);
  return [
    ...objects.filter((each) => !each.startsWith('{"rule"')),
    ...[...byChain.values()].map((each) => each.join("\n")),
  ].sort();
}
