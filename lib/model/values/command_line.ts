/**
 * What a daemon was started with: whoever has it works out the same configuration.
 *
 * @module
 */

/** Words and file, as the daemon has them in use. They hold no credentials, only where these are. */
export interface CommandLine {
  /** The words after the program's name. */
  readonly argv: readonly string[];
  /** Relative paths start here. */
  readonly workingDirectory: string;
  /** The file that `--config` names, as it was when its settings were taken over; `null`: none. */
  readonly file: { readonly path: string; readonly text: string } | null;
}
