/**
 * Finds the place of a setting, so that messages can name it.
 *
 * @module
 */
import { plain } from "../model/values/text.ts";
import type { GivenSettings, SettingPath } from "./settings/table.ts";

/** The settings and their places. */
export interface Origin {
  /** The merged settings. */
  readonly settings: GivenSettings;
  readonly file: GivenSettings;
  /** `""` if there is no file. */
  readonly fileName: string;
  /** The flag that set a path. */
  readonly setBy: ReadonlyMap<string, string>;
}

/** Returns true if the file or a flag sets a path, such as `conntrack.min`. */
export function isSet(origin: Origin, path: SettingPath): boolean {
  return origin.settings[path] !== undefined;
}

/** Returns the place of a path: `--conntrack-min`, `/etc/x.yaml: conntrack.min`, or the path itself. */
export function placeOf({ file, fileName, setBy }: Origin, path: SettingPath): string {
  return setBy.get(path) ?? (file[path] !== undefined ? `${plain(fileName)}: ${path}` : path);
}
