/**
 * What a setting is: one row of the table says how it is read, what it is where nothing sets it, which
 * flag sets it, how `/configz` prints it, and whether it has an effect.
 *
 * @module
 */
import type { MinSyncPeriod } from "../../model/configuration.ts";
import { formatDuration } from "../file/durations.ts";
import { duration as readDuration, type Reader } from "../file/fields.ts";
import type { Flag } from "../flags/flag.ts";

/** A value that `JSON.stringify` prints as it is. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/** The flag of a setting. */
export type SettingFlag = Omit<Flag, "kind" | "sets"> & {
  /** By default `text`, and `boolean` where it has no `value`. */
  readonly kind?: Flag["kind"];
  /** Paths of other settings that the flag sets, too. */
  readonly alsoSets?: readonly string[];
};

/** What most settings do without. */
export interface SettingOptions {
  readonly flag?: SettingFlag;
  /** Whether KubeProxyConfiguration has it; true by default. */
  readonly inFile?: boolean;
  /**
   * Where an empty or zero value means the default: nowhere (by default), in the file, where Go has no
   * other way to say so, or in flags as well.
   */
  readonly empty?: "in the file" | "everywhere";
  /** Where it has no effect, another value than kube-proxy's default is named in a warning. */
  readonly unused?: boolean | "outside ipvs mode";
}

/** One setting. `T` is what it is in the configuration. */
export interface Setting<T> extends SettingOptions {
  /** `list`: of what `read` reads; `switches`: names with true or false. */
  readonly shape: "value" | "list" | "switches";
  /** Reads the value, or one item of a list. */
  readonly read: Reader<unknown>;
  readonly default: T;
  /** The value as KubeProxyConfiguration has it. */
  print(value: T): Json;
}

/** A setting with one value. */
export function value<T extends Json>(
  read: Reader<T>,
  fallback: T,
  options: SettingOptions = {},
): Setting<T> {
  return { ...options, shape: "value", read, default: fallback, print: (value) => value };
}

/** A setting with one value, which only its flag sets. */
export function flagOnly<T extends Json>(
  read: Reader<T>,
  fallback: T,
  flag: SettingFlag,
): Setting<T> {
  return value(read, fallback, { inFile: false, flag });
}

/** One of a few words, or another value whose empty text means the default. */
export function word<T extends Json>(
  read: Reader<T | "">,
  fallback: T,
  options: SettingOptions = {},
): Setting<T> {
  const print = (value: T) => value;
  return { empty: "everywhere", ...options, shape: "value", read, default: fallback, print };
}

/** A duration in milliseconds. */
export function duration(fallback: number, options: SettingOptions = {}): Setting<number> {
  return {
    ...options,
    shape: "value",
    read: readDuration,
    default: fallback,
    print: formatDuration,
  };
}

/** A list, empty by default. */
export function list<T extends Json>(
  read: Reader<T>,
  options: SettingOptions = {},
): Setting<readonly T[]> {
  return { ...options, shape: "list", read, default: [], print: (values) => values };
}

/** Names with true or false, none by default. */
export function switches(
  options: SettingOptions = {},
): Setting<Readonly<Record<string, boolean>>> {
  const print = (value: Readonly<Record<string, boolean>>) => value;
  return { ...options, shape: "switches", read: (each) => each, default: {}, print };
}

/** Settings whose flags stand under one title of the help text. */
export interface SettingGroup<S extends Readonly<Record<string, Setting<unknown>>>> {
  readonly title: string;
  /** By path: `conntrack.min`. */
  readonly settings: S;
  /** Flags that set nothing. */
  readonly flags?: readonly Flag[];
}

/** A group; its rows keep their types. */
export function group<S extends Readonly<Record<string, Setting<unknown>>>>(
  group: SettingGroup<S>,
): SettingGroup<S> {
  return group;
}

/** Adaptive where nothing sets it; KubeProxyConfiguration has `0s` for that, as kubeadm writes it. */
export function minSyncPeriod(options: SettingOptions = {}): Setting<MinSyncPeriod> {
  return {
    ...duration(0, options),
    empty: "in the file",
    default: "adaptive",
    print: (value) => formatDuration(value === "adaptive" ? 0 : value),
  };
}
