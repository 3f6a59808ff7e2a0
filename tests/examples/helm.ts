/** Helm, and what it makes of the chart. */
import { type CommandResult, execute } from "../support/command.ts";
import { goProgram } from "../../tools/go.ts";

/** A helm built without its release's settings believes in Kubernetes 1.20. */
const KUBERNETES = ["--kube-version", "1.37.0"];
export const CHART = new URL("../../charts/signpost", import.meta.url).pathname;

/** Returns the path of helm, `undefined` where it cannot be built. */
export function findHelm(): Promise<string | undefined> {
  return goProgram("helm.sh/helm/v3/cmd/helm@v3.22.0");
}

/** Renders the chart with `helm template`. */
export async function template(helm: string, args: readonly string[]): Promise<CommandResult> {
  const command = [helm, "template", "signpost", CHART, "-n", "kube-system", ...KUBERNETES];
  return await execute([...command, ...args]);
}

/** Checks the chart with `helm lint --strict`. */
export async function lint(helm: string, args: readonly string[]): Promise<CommandResult> {
  return await execute([helm, "lint", "--strict", CHART, ...KUBERNETES, ...args]);
}
