/**
 * Is a kube-proxy alive?
 *
 * @module
 */
import type { ProcessRunner } from "../model/ports/ports.ts";

/**
 * Processes called kube-proxy that can be seen from here, each as `kube-proxy (pid 4711)`. One in a
 * process namespace of its own, or inside another program (as in k3s), cannot.
 */
export async function kubeProxyProcesses(runner: ProcessRunner): Promise<readonly string[]> {
  try {
    const { stdout } = await runner.run(["pgrep", "-x", "kube-proxy"]);
    return (stdout.match(/^\d+$/gm) ?? []).map((pid) => `kube-proxy (pid ${pid})`);
  } catch {
    // Without pgrep (package procps) that is not known.
    return [];
  }
}
