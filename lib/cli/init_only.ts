/** `signpost --init-only`: changes only the settings that need full root, as kube-proxy does. */
import { FatalError, messageOf } from "../model/values/errors.ts";
import { openBackend } from "../backend/choose.ts";
import { ROUTE_LOCALNET, setRouteLocalnet } from "../backend/sysctl.ts";
import {
  applyConntrackSettings,
  type KernelSettingsOptions,
} from "../conntrack/kernel_settings.ts";
import { answersOnLoopback, desiredNode } from "../policy/node.ts";

/**
 * Probes the kernel, and changes the daemon's kernel settings: connection tracking, and `route_localnet` if node ports
 * answer on localhost. It does not write rules, and does not ask the API server.
 * @throws {FatalError} if the daemon could not work here, or `route_localnet` cannot be set
 */
export async function initOnly(options: KernelSettingsOptions): Promise<void> {
  const { configuration, runtime, logger } = options;
  // This loads the kernel's modules. Without them, the settings of connection tracking do not exist.
  const { backend: { traits } } = await openBackend(options);
  const node = desiredNode({ configuration, traits, node: undefined, serviceCIDRs: [] });
  if (answersOnLoopback(node, 4)) {
    await setRouteLocalnet(runtime.runner).catch((cause) => {
      const remedy =
        "run signpost --init-only as full root, or set iptables.localhostNodePorts to false";
      const message = `${ROUTE_LOCALNET} cannot be set: ${messageOf(cause)}; ${remedy}`;
      throw new FatalError(message, { cause });
    });
  }
  for (const failure of await applyConntrackSettings(options)) {
    logger.warn("a kernel setting could not be changed", { ...failure });
  }
  logger.info("--init-only: the kernel settings are changed", { mode: traits.name });
}
