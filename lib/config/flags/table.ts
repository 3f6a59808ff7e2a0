/**
 * All flags together: those of the settings, and the two that inform.
 *
 * @module
 */
import { SETTING_FLAG_GROUPS } from "../settings/table.ts";
import { COMMAND_FACTS } from "./commands.ts";
import type { CommandName, Flag, FlagGroup } from "./flag.ts";

/** `--help` and `--version`: they win over everything else. */
const INFORMATION_FLAGS: FlagGroup = {
  title: "Information",
  flags: [
    { name: "help", letter: "h", kind: "boolean", sets: [], help: "Print this text and exit." },
    { name: "version", kind: "boolean", sets: [], help: "Print the version and exit." },
  ],
};

/** The groups of flags in the order of the help text. */
export const FLAG_GROUPS: readonly FlagGroup[] = [...SETTING_FLAG_GROUPS, INFORMATION_FLAGS];

/** Every flag. */
export const FLAGS: readonly Flag[] = FLAG_GROUPS.flatMap((group) => group.flags);

/** Returns true if a command takes a flag. */
export function isOf(flag: Flag, command: CommandName): boolean {
  return flag.only === undefined || flag.only.includes(command);
}

/** The flag of that name which a command takes; else one that other commands take. */
export function findFlag(name: string, command: CommandName): Flag | undefined {
  const all = FLAGS.filter((flag) => flag.name === name);
  return all.find((flag) => isOf(flag, command)) ?? all[0];
}

/** Returns the flags that a command's help and completion show: its own, then those that it shares. */
export function flagGroupsOf(command: CommandName): readonly FlagGroup[] {
  const { shares } = COMMAND_FACTS[command];
  const groups = shares === "all"
    ? FLAG_GROUPS.map(({ title, flags }) => ({
      title,
      flags: flags.filter((flag) => isOf(flag, command)),
    }))
    : [
      {
        title: "Flags",
        flags: FLAGS.filter(({ name, only }) => only?.includes(command) || name === "help"),
      },
      {
        title: "Flags of the daemon",
        flags: FLAGS.filter(({ name, only }) => !only && shares.includes(name)),
      },
    ];
  return groups.filter(({ flags }) => flags.length > 0);
}
