/**
 * Finds running kube-proxy processes.
 *
 * @module
 */
import type { Runtime } from "../model/ports/runtime.ts";

/**
 * Returns root's processes called kube-proxy in this network namespace, each as `kube-proxy (pid
 * 4711)`. A process in its own PID namespace, or inside another program (as in k3s), cannot be
 * seen.
 */
export async function kubeProxyProcesses(
  { runner, pid }: Pick<Runtime, "runner" | "pid">,
): Promise<readonly string[]> {
  const here = ["--ns", `${pid}`, "--nslist", "net"];
  try {
    const { stdout } = await runner.run(["pgrep", "-u", "0", ...here, "-x", "kube-proxy"]);
    return (stdout.match(/^\d+$/gm) ?? []).map((pid) => `kube-proxy (pid ${pid})`);
  } catch {
    // Without pgrep (package procps), processes cannot be found.
    return [];
  }
}
