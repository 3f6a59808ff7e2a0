/**
 * Where a setting comes from, so that messages can name the place to change.
 *
 * @module
 */
import { valueAt } from "./issues.ts";
import type { FileSettings, FlagSettings } from "./schema.ts";
import { plain } from "../model/text.ts";

/** Settings and the places that they came from. */
export interface Origin {
  /** The merged settings. */
  readonly settings: FlagSettings;
  readonly file: FileSettings;
  /** `""`: no file. */
  readonly fileName: string;
  /** The flag that set a path. */
  readonly setBy: ReadonlyMap<string, string>;
}

/** Whether the file or a flag sets a path, such as `conntrack.min`. */
export function isSet(origin: Origin, path: string): boolean {
  return valueAt(origin.settings, path.split(".")) !== undefined;
}

/** The place that sets a path: `--conntrack-min`, `/etc/x.yaml: conntrack.min`, or the path. */
export function placeOf({ file, fileName, setBy }: Origin, path: string): string {
  const flag = setBy.get(path);
  if (flag !== undefined) return flag;
  const inFile = valueAt(file, path.split(".")) !== undefined;
  return inFile ? `${plain(fileName)}: ${path}` : path;
}
