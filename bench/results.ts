/**
 * The results of a run of the bench, as data.
 *
 * @module
 */
import type { Cpu } from "./parts/cpu.ts";
import type { Changes } from "./parts/changes.ts";
import type { Floor } from "./parts/floor.ts";
import type { IptablesResult } from "./parts/iptables.ts";
import type { CounterCosts } from "./parts/counters.ts";
import type { Localhost } from "./parts/localhost.ts";
import type { PacketPath } from "./parts/packets.ts";
import type { Pause } from "./parts/pause.ts";
import type { Start } from "./parts/start.ts";
import type { WideService } from "./parts/wide_service.ts";
import type { Work } from "./parts/work.ts";
import type { Part } from "./options.ts";

/** The results with so many Services; parts that were not run are missing. */
export interface SizeResult {
  readonly services: number;
  readonly endpointsEach: number;
  readonly start?: Start;
  readonly floor?: Floor;
  readonly steady?: Changes;
  readonly burst?: Changes;
  readonly work?: Work;
  readonly cpu?: Cpu;
  readonly pause?: readonly Pause[];
}

/** A whole run. */
export interface Results {
  /** When, on what. */
  readonly date: string;
  readonly machine: {
    readonly kernel: string;
    readonly cores: number;
    readonly cpu: string;
    readonly nft: string;
    readonly deno: string;
  };
  /** The program that was measured, in words. */
  readonly program: string;
  /** Of each part, when: the commit, the day and how busy the machine was before, in words. */
  readonly measured: Readonly<Partial<Record<Part, string>>>;
  readonly sizes: readonly SizeResult[];
  /** Milliseconds from the start of the process to its first HTTP request. */
  readonly firstRequest?: number;
  readonly wideService?: WideService;
  readonly packets?: readonly PacketPath[];
  /** The costs of counting connections. */
  readonly counters?: readonly CounterCosts[];
  readonly iptables?: readonly IptablesResult[];
  /** Node ports on loopback. */
  readonly localhost?: Localhost;
}
