/**
 * Builds the table of all settings. A new setting is one row in a group. The type of the configuration, its flag,
 * `/configz`, help, completion and the manual page follow from it.
 */
import { ACCELERATION_GROUP } from "./acceleration.ts";
import { CONNTRACK_GROUP, HEALTH_GROUP, LIMIT_GROUP, PROCESS_GROUP } from "./process.ts";
import { RULE_GROUP } from "./rules.ts";
import { SCHEDULER_GROUP } from "./schedulers.ts";
import { type Flag, type FlagGroup, flagsOf, type Setting } from "./setting.ts";
import { SOURCE_GROUP } from "./sources.ts";
import { UNUSED_GROUP } from "./unused.ts";
import { plain } from "../../model/values/text.ts";

export const SETTINGS = {
  ...SOURCE_GROUP.settings,
  ...RULE_GROUP.settings,
  ...SCHEDULER_GROUP.settings,
  ...ACCELERATION_GROUP.settings,
  ...LIMIT_GROUP.settings,
  ...HEALTH_GROUP.settings,
  ...CONNTRACK_GROUP.settings,
  ...PROCESS_GROUP.settings,
  ...UNUSED_GROUP.settings,
};

/** The path of a setting, such as `conntrack.min`. */
export type SettingPath = keyof typeof SETTINGS;

export type Settings = {
  readonly [P in SettingPath]: (typeof SETTINGS)[P]["default"];
};

export type GivenSettings = { readonly [P in SettingPath]?: Settings[P] | undefined };

export const ROWS: ReadonlyMap<string, Setting<unknown>> = new Map(Object.entries(SETTINGS));

export type Section<T, S extends string> = {
  readonly [P in keyof T as P extends `${S}.${infer Name}` ? Name : never]: T[P];
};

/** Settings whose flags have one title in the help text. */
interface SettingGroup {
  readonly title: string;
  /** By path: `conntrack.min`. */
  readonly settings: Readonly<Record<string, Setting<unknown>>>;
  readonly flags?: readonly Flag[];
}

const GROUPS: readonly SettingGroup[] = [
  SOURCE_GROUP,
  RULE_GROUP,
  SCHEDULER_GROUP,
  ACCELERATION_GROUP,
  LIMIT_GROUP,
  HEALTH_GROUP,
  CONNTRACK_GROUP,
  PROCESS_GROUP,
  UNUSED_GROUP,
];

export const SETTING_FLAG_GROUPS: readonly FlagGroup[] = GROUPS.map((
  { title, settings, flags = [] },
) => ({ title, flags: [...flagsOf(settings), ...flags] }));

export const UNUSED_TITLE = UNUSED_GROUP.title;

/** Values by their names, in sections. */
interface Sections<T> {
  [name: string]: T | Sections<T>;
}

/** Returns values in their sections: `conntrack.min` is `min` in `conntrack`. */
export function inSections<T>(
  values: Iterable<readonly [path: string, value: T]>,
): Sections<T> {
  const result: Sections<T> = {};
  for (const [path, value] of values) {
    const names = path.split(".");
    const last = names.pop() ?? path;
    let section = result;
    for (const name of names) section = (section[name] ??= {}) as Sections<T>;
    section[last] = value;
  }
  return result;
}

export interface Origin {
  readonly settings: GivenSettings;
  readonly file: GivenSettings;
  /** `""` if there is no file. */
  readonly fileName: string;
  /** The flag that set a path. */
  readonly setBy: ReadonlyMap<string, string>;
}

/** Returns the place of a path: `--conntrack-min`, `/etc/x.yaml: conntrack.min`, or the path itself. */
export function placeOf({ file, fileName, setBy }: Origin, path: SettingPath): string {
  return setBy.get(path) ?? (file[path] !== undefined ? `${plain(fileName)}: ${path}` : path);
}
