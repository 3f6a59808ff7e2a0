/**
 * Reads the configuration of the running daemon again. A good one is taken over, a bad one refused; one
 * whose kubeconfig or manifests cannot be used is refused until they can.
 *
 * @module
 */
import { loadConfiguration } from "../config/load.ts";
import { checkSource } from "../daemon/objects/source.ts";
import type { Configuration } from "../model/configuration.ts";
import type { Logger } from "../model/ports/ports.ts";
import type { Runtime } from "../model/ports/runtime.ts";
import { FatalError } from "../model/values/fatal.ts";
import { VERSION_TEXT } from "../model/version.ts";
import type { ServiceManager } from "../observe/systemd.ts";
import type { ConfigurationFile } from "./configuration_file.ts";
import { nodeNameOf } from "./node_name.ts";

/** Milliseconds between two looks at a kubeconfig or manifests that cannot be used. */
const SOURCE_PERIOD = 5_000;

/** What a reload works with. */
export interface ReloadOptions {
  readonly argv: readonly string[];
  readonly file: ConfigurationFile;
  /** What the daemon runs with. */
  readonly configuration: Configuration;
  readonly runtime: Runtime;
  readonly logger: Logger;
  readonly manager: Pick<ServiceManager, "reloading" | "reloaded">;
  /** Takes over a configuration that is good and differs. */
  readonly take: (configuration: Configuration) => void;
  /** Aborts when one is taken over, or the daemon ends. */
  readonly signal: AbortSignal;
}

/** The reloads of one configuration's daemon. */
export class Reload {
  #count = 0;
  /** What was taken over; the daemon with it is about to start. */
  #next: Configuration | undefined;

  /** @param options see there */
  constructor(private readonly options: ReloadOptions) {}

  /** Reads the configuration again; what an earlier call still waits for counts no more. */
  async readAgain(): Promise<void> {
    const { manager } = this.options;
    const count = ++this.#count;
    await manager.reloading();
    const wanted = await this.#load();
    const problem = wanted && await this.#sourceProblem(wanted);
    if (count !== this.#count) return;
    if (wanted && problem === undefined) return this.#take(wanted);
    if (problem !== undefined) this.#refuse(`${problem}; it is taken as soon as that is mended`);
    await manager.reloaded();
    if (wanted) void this.#takeLater(wanted, count);
  }

  async #takeLater(wanted: Configuration, count: number): Promise<void> {
    const { runtime, signal } = this.options;
    for (;;) {
      await runtime.clock.sleep(SOURCE_PERIOD, signal);
      const problem = signal.aborted ? undefined : await this.#sourceProblem(wanted);
      if (signal.aborted || count !== this.#count) return;
      if (problem === undefined) return this.#take(wanted);
    }
  }

  #take(wanted: Configuration): void {
    this.#next = wanted;
    this.options.take(wanted);
  }

  /** @returns the new configuration, where it is good and differs */
  async #load(): Promise<Configuration | undefined> {
    const { argv, file, logger, configuration } = this.options;
    const loaded = await loadConfiguration(argv, { readFile: file.read, version: VERSION_TEXT });
    if (loaded.type === "errors") {
      for (const error of loaded.errors) this.#refuse(error);
      return undefined;
    }
    if (loaded.type !== "run") return undefined;
    for (const warning of loaded.warnings) logger.warn(warning);
    if (JSON.stringify(loaded.configuration) !== JSON.stringify(this.#next ?? configuration)) {
      return loaded.configuration;
    }
    logger.info("the configuration has not changed");
    return undefined;
  }

  /** Why a start with this configuration would end the process: there is no going back then. */
  async #sourceProblem(configuration: Configuration): Promise<string | undefined> {
    const nodeName = nodeNameOf(configuration, this.options.runtime);
    try {
      await checkSource({ ...this.options, configuration, nodeName });
      return undefined;
    } catch (error) {
      if (error instanceof FatalError) return error.message;
      throw error;
    }
  }

  #refuse(error: string): void {
    this.options.logger.error(`the new configuration is refused, the old one is kept: ${error}`);
  }
}
