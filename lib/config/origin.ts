/**
 * Where a setting comes from, so that messages can name the place to change.
 *
 * @module
 */
import { plain } from "../model/values/text.ts";
import type { GivenSettings, SettingPath } from "./settings/table.ts";

/** Settings and the places that they came from. */
export interface Origin {
  /** The merged settings. */
  readonly settings: GivenSettings;
  readonly file: GivenSettings;
  /** `""`: no file. */
  readonly fileName: string;
  /** The flag that set a path. */
  readonly setBy: ReadonlyMap<string, string>;
}

/** Whether the file or a flag sets a path, such as `conntrack.min`. */
export function isSet(origin: Origin, path: SettingPath): boolean {
  return origin.settings[path] !== undefined;
}

/** The place that sets a path: `--conntrack-min`, `/etc/x.yaml: conntrack.min`, or the path. */
export function placeOf({ file, fileName, setBy }: Origin, path: SettingPath): string {
  return setBy.get(path) ?? (file[path] !== undefined ? `${plain(fileName)}: ${path}` : path);
}
