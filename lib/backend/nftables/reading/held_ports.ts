/**
 * Tells if the table holds what some service ports need, without listing elements: nft takes seconds and
 * 1.7 kB for each element to list a large table.
 *
 * @module
 */
import { atOnce } from "../../../model/ports/in_turns.ts";
import type { PortsOfNode } from "../../backend.ts";
import { tableOf } from "../delta.ts";
import { type Contents, parsingListing, readingTable } from "../kernel/contents.ts";
import type { Nft } from "../kernel/nft.ts";
import { nodeElements } from "../script/layout.ts";
import { type Element, elementId, elementsOf, TABLE } from "../script/objects.ts";
import { renderElement } from "../text.ts";

/** Elements that are asked for; of more, the table is listed. */
const MOST = 2_000;

/**
 * Reads the structure of the table, and asks the kernel for the elements of some ports. Nothing is written.
 *
 * @returns the contents with these elements alone; `undefined`: one is missing or differs, or cannot be
 *   asked for, so that the table must be listed
 */
export async function heldPorts(
  nft: Pick<Nft, "listStructure" | "existingLines">,
  { ports, node }: PortsOfNode,
): Promise<Contents | undefined> {
  // The clients of session affinity are listed only.
  if (ports.some(({ affinitySeconds }) => affinitySeconds > 0)) return undefined;
  const structure = atOnce(parsingListing(await nft.listStructure()));
  if (!structure) return undefined;
  const table = atOnce(tableOf({ node, services: new Map([["", ports]]) }));
  const fixed = new Set(nodeElements(node).map(elementId));
  const elements = [...elementsOf(table.elements)].filter((each) => !fixed.has(elementId(each)));
  if (elements.length > MOST || !await hasAll(nft, elements)) return undefined;
  const wanted = atOnce(readingTable({ ...table, elements }));
  return {
    ...structure,
    sets: new Map([...structure.sets.keys()].map((name) => [
      name,
      new Map(wanted.sets.get(name) ?? []),
    ])),
    remarks: wanted.remarks,
  };
}

/**
 * The kernel refuses to create an element that is there, and to add one that is there with other data.
 * nft asks it for both at once, and takes neither (nft(8), `--check`).
 */
async function hasAll(
  nft: Pick<Nft, "existingLines">,
  elements: readonly Element[],
): Promise<boolean> {
  // nft lists intervals before it adds to them.
  if (elements.some(({ set }) => set.body.includes("interval"))) return false;
  if (elements.length === 0) return true;
  const lines = elements.flatMap((each) => {
    const place = `element ${TABLE} ${each.set.name} { ${renderElement(each)} }\n`;
    return [`create ${place}`, `add ${place}`];
  });
  const existing = await nft.existingLines(lines.join(""));
  return elements.every((_, i) => existing.has(2 * i + 1) && !existing.has(2 * i + 2));
}
