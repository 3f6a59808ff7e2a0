/** The parts of a daemon that has not begun, with a fake kernel and no API server. */
import { type DaemonOptions, makeParts, type Parts } from "../../lib/daemon/parts.ts";
import { HealthCheckNodePorts } from "../../lib/healthcheck/node_ports.ts";
import { LocalhostListeners } from "../../lib/localhost/listeners.ts";
import { ServiceManager } from "../../lib/observe/systemd.ts";
import { httpListen } from "../../lib/system/http_servers.ts";
import { tcp } from "../../lib/system/tcp.ts";
import { world } from "../cli/runtime.ts";
import { DEFAULTS } from "../support/configuration.ts";
import { fakeBackend } from "../support/fake_backend.ts";

export const COMMAND_LINE = { argv: ["run"], workingDirectory: "/", file: null };

/** Makes a daemon's options. @param changes what is other than usual */
export function daemonOptions(changes: Partial<DaemonOptions> = {}): DaemonOptions {
  const { runtime, logger } = { ...world(), ...changes };
  const { clock } = runtime;
  const listen = httpListen({ clock, logger });
  return {
    configuration: DEFAULTS,
    commandLine: COMMAND_LINE,
    nodeName: "node-1",
    runtime,
    logger,
    recentLog: [],
    manager: new ServiceManager({ socket: undefined, watchdog: undefined, clock, logger }),
    localhost: new LocalhostListeners({ tcp: tcp(), clock }),
    healthChecks: new HealthCheckNodePorts({ listen, clock }),
    servers: { keep: listen },
    signal: new AbortController().signal,
    processSignal: new AbortController().signal,
    ...changes,
  };
}

/** Makes the parts. @param changes what is other than usual */
export function newParts(changes: Partial<DaemonOptions> & Partial<Parts["opened"]> = {}): Parts {
  const opened = {
    backend: fakeBackend(),
    choice: "",
    version: "1.1.3",
    missing: new Map(),
    refusedFeatures: new Map(),
    findings: [],
    source: { api: undefined, run: () => Promise.resolve() },
  };
  return makeParts(daemonOptions(changes), { ...opened, ...changes });
}
