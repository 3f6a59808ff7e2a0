/**
 * The command line and configuration file of a daemon, from which its configuration follows.
 *
 * @module
 */

/** The arguments and file in use. They hold paths of credentials, not credentials. */
export interface CommandLine {
  /** The arguments after the program's name. */
  readonly argv: readonly string[];
  /** The folder in which relative paths start. */
  readonly workingDirectory: string;
  /** The file of `--config`, as it was when its settings were applied; `null` if there is none. */
  readonly file: { readonly path: string; readonly text: string } | null;
}
