/** Chooses the backend. Only this module lists the backends. */
import { finding } from "../findings/catalog.ts";
import type { Mode } from "../model/configuration.ts";
import { ApplyError, type ApplyFailure } from "../model/kernel/dataplane.ts";
import { fatalIf } from "../model/values/errors.ts";
import { type Backend, type BackendOptions, missingFamilies, type Probed } from "./backend.ts";
import { iptablesBackend } from "./iptables/backend.ts";
import { nftablesBackend } from "./nftables/backend.ts";

const BACKENDS: Readonly<Record<Mode, (options: BackendOptions) => Backend>> = {
  nftables: nftablesBackend,
  iptables: iptablesBackend,
};

/** The mode to try first if the mode is not set, and the next mode. */
const FIRST: Mode = "nftables";
const NEXT: Mode = "iptables";

export interface OpenBackend extends Probed {
  readonly backend: Backend;
}

/** Returns the backend of the configured mode, or of the first mode, without asking the kernel. */
export function likelyBackend(options: BackendOptions): Backend {
  return BACKENDS[options.configuration.mode || FIRST](options);
}

/** Returns the backend that a daemon with this configuration uses here, for commands that only read. */
export async function usedBackend(options: BackendOptions): Promise<Backend> {
  const backend = likelyBackend(options);
  const isUsed = options.configuration.mode !== "" || await works(backend);
  return isUsed ? backend : BACKENDS[NEXT](options);
}

/** Returns true if the first mode would work although another mode is set. */
export async function couldUseFirst(options: BackendOptions): Promise<boolean> {
  const { mode } = options.configuration;
  return mode !== "" && mode !== FIRST && await works(BACKENDS[FIRST](options));
}

function works(backend: Backend): Promise<boolean> {
  return backend.probe().then(() => true, (error) => {
    if (error instanceof ApplyError) return false;
    throw error;
  });
}

/** Opens the backend of the configured mode, else the first that works. @throws {FatalError} */
export async function openBackend(options: BackendOptions): Promise<OpenBackend> {
  const opened = await openEither(options).catch(fatalIf(ApplyError));
  if (opened.choice !== "") options.logger.info(opened.choice);
  const missing = [...missingFamilies(options.runtime)].map(([family, reason]) =>
    finding("ip-family-missing", {
      what: `no IPv${family} rules: ${reason}`,
      where: `IPv${family}`,
    })
  );
  return { ...opened, findings: [...opened.findings, ...missing] };
}

/** Opens the backend, unless the running configuration has the same mode. @throws {FatalError} */
export async function checkBackend(
  options: BackendOptions,
  running: BackendOptions["configuration"],
): Promise<void> {
  if (options.configuration.mode !== running.mode) await openBackend(options);
}

/** Temporary failures, after which signpost does not choose another mode. */
const PASSING: ReadonlySet<ApplyFailure> = new Set(["program-failed", "owned"]);

async function openEither(options: BackendOptions): Promise<OpenBackend> {
  const backend = likelyBackend(options);
  try {
    return { ...await backend.probe(), backend };
  } catch (error) {
    const isFinal = options.configuration.mode !== "" || !(error instanceof ApplyError) ||
      PASSING.has(error.failure);
    if (isFinal) throw error;
    const next = BACKENDS[NEXT](options);
    const probed = await next.probe().catch((nextError: unknown) => {
      if (!(nextError instanceof ApplyError)) throw nextError;
      const message =
        `neither ${FIRST} nor ${NEXT} can be used: ${error.message}; ${nextError.message}`;
      throw new ApplyError(error.failure, message, { cause: error });
    });
    const fallback = finding("nftables-unusable", {
      what: `${NEXT} is used, since ${FIRST} cannot be: ${error.message}`,
      where: FIRST,
    });
    return { ...probed, backend: next, findings: [...probed.findings, fallback] };
  }
}
