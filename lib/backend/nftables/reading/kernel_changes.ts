/**
 * Manifests against the kernel's table as it is, where the present objects are not known: what is
 * held of the frontends of their Services, and what should be.
 *
 * @module
 */
import type { DesiredState } from "../../../model/kernel/desired.ts";
import type { Change, Difference, KernelChanges } from "../../../model/kernel/differences.ts";
import { compareContents } from "../kernel/compare.ts";
import { type Contents, desiredContents, NO_CONTENTS } from "../kernel/contents.ts";
import { frontendsOf } from "../../../policy/frontend.ts";
import { frontendId, frontendIdOf, ownersIn } from "./frontends.ts";
import { partChange } from "./changes.ts";

/**
 * The step from the kernel's table to the desired state of some Services. Chains, sets and elements
 * that others may need are only ever added.
 *
 * @param state the Services of the manifests alone
 */
export function kernelChanges(state: DesiredState, held: Contents): KernelChanges {
  const fixed = desiredContents({ node: state.node, services: new Map() });
  const desired = desiredContents(state);
  const owners = ownersIn(held);
  const foreign = foreignFrontends(state, owners);
  const frontends = frontendsInScope(state, owners);
  const owner = (set: string, key: string) => {
    return frontends.get(frontendIdOf(set, key) ?? "") ?? "";
  };
  const isForeign = (set: string, key: string) => {
    return foreign.has(frontendIdOf(set, key) ?? "");
  };
  const wanted = elementsOf(
    desired,
    (set, key) => !fixed.sets.get(set)?.has(key) && !isForeign(set, key),
  );
  const there = elementsOf(
    held,
    (set, key) =>
      !isForeign(set, key) &&
      (owner(set, key) !== "" || wanted.sets.get(set)?.has(key) === true),
  );
  const elements = compareContents(wanted, {
    ...there,
    sets: withEmptySets(there.sets, wanted.sets),
  })
    .filter(({ key }) => key !== "").flatMap((each) => changesOf(each, owner(each.in, each.key)));
  const changes = [
    ...elements.filter(({ change }) => change === "delete"),
    ...newParts(desired, held),
    ...elements.filter(({ change }) => change === "add"),
  ];
  return { changes, warnings: [...foreign.values()] };
}

/** Frontends of the Services as they should be, and as the kernel's comments tell; with their owners. */
function frontendsInScope(
  state: DesiredState,
  held: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const ofKernel = [...held].filter(([, name]) => state.services.has(serviceOf(name)));
  return new Map([...ofKernel, ...desiredFrontends(state)]);
}

/** The frontends of a state, each with its service port. */
export function desiredFrontends(state: DesiredState): [frontend: string, name: string][] {
  return [...state.services.values()].flat().flatMap((servicePort) =>
    frontendsOf(servicePort).map((each): [string, string] => [
      frontendId(servicePort, each),
      servicePort.name,
    ])
  );
}

/**
 * Frontends that a Service has which is not in the manifests: it was there before, and the older
 * one keeps them. By frontend, a line that says so.
 */
function foreignFrontends(
  state: DesiredState,
  held: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return new Map(
    desiredFrontends(state).flatMap(([frontend, name]) => {
      const other = held.get(frontend);
      if (other === undefined || state.services.has(serviceOf(other))) return [];
      const line =
        `${name} wants ${frontend}, which belongs to ${other}: the older Service keeps it`;
      return [[frontend, line] as const];
    }),
  );
}

function serviceOf(servicePort: string): string {
  return servicePort.split(":")[0] ?? "";
}

function elementsOf(
  contents: Contents,
  isWanted: (set: string, key: string) => boolean,
): Contents {
  const sets = [...contents.sets].map(([set, elements]) =>
    [set, new Map([...elements].filter(([key]) => isWanted(set, key)))] as const
  );
  return { ...NO_CONTENTS, sets: new Map(sets) };
}

/** Sets that are missing are named apart: here they count as empty. */
function withEmptySets(sets: Contents["sets"], all: Contents["sets"]): Contents["sets"] {
  return new Map([...[...all.keys()].map((name) => [name, new Map()] as const), ...sets]);
}

function newParts(desired: Contents, held: Contents): Change[] {
  const missing = (part: "sets" | "chains") =>
    [...desired[part].keys()].filter((name) => !held[part].has(name)).map((name) => ({ name }));
  return [
    ...missing("sets").map(partChange("add", "set")),
    ...missing("chains").map(partChange("add", "chain")),
  ];
}

function changesOf({ type, in: set, key, desired, held }: Difference, service: string): Change[] {
  const change = (change: Change["change"], data: string): Change => ({
    change,
    type: "element",
    in: set,
    key,
    data,
    service,
  });
  return [
    ...type === "missing" ? [] : [change("delete", held)],
    ...type === "extra" ? [] : [change("add", desired)],
  ];
}
