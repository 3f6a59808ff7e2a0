/** Gathers all flags: those of each command, those of the settings, --help and --version. */
import { COMMAND_ROWS, type CommandName, COMMANDS } from "./commands.ts";
import { type Flag, type FlagGroup, flagsOf } from "./settings/setting.ts";
import { SETTING_FLAG_GROUPS } from "./settings/table.ts";

/** `--help` and `--version`: they win over everything else. */
const INFORMATION_FLAGS: FlagGroup = {
  title: "Information",
  flags: [
    { name: "help", letter: "h", kind: "boolean", sets: [], help: "Print this text and exit." },
    { name: "version", kind: "boolean", sets: [], help: "Print the version and exit." },
  ],
};

/** The flags that every command takes, in the order of the help text. */
export const SHARED_FLAG_GROUPS: readonly FlagGroup[] = [...SETTING_FLAG_GROUPS, INFORMATION_FLAGS];

const SHARED_FLAGS: readonly Flag[] = SHARED_FLAG_GROUPS.flatMap(({ flags }) => flags);

const OWN_FLAGS: ReadonlyMap<CommandName, readonly Flag[]> = new Map(
  COMMANDS.map((name) => [name, flagsOf(COMMAND_ROWS[name].flags)]),
);

/** Every flag. A name may be there for several commands. */
export const FLAGS: readonly Flag[] = [...[...OWN_FLAGS.values()].flat(), ...SHARED_FLAGS];

export function ownFlagsOf(command: CommandName): readonly Flag[] {
  return OWN_FLAGS.get(command) ?? [];
}

/** Returns the commands that have a flag of their own of that name; none if every command takes it. */
export function ownersOf(flag: Flag): readonly CommandName[] {
  if (SHARED_FLAGS.includes(flag)) return [];
  return COMMANDS.filter((command) => ownFlagsOf(command).some(({ name }) => name === flag.name));
}

/** Returns the first flag that fits: of those that a command takes, else of other commands. */
export function findFlag(
  command: CommandName,
  fits: (flag: Flag) => boolean,
): Flag | undefined {
  return [...ownFlagsOf(command), ...SHARED_FLAGS, ...FLAGS].find(fits);
}

/** Returns the flags that a command's help and completion show: its own, then those that it shares. */
export function flagGroupsOf(command: CommandName): readonly FlagGroup[] {
  const { shares = [] } = COMMAND_ROWS[command];
  const own = ownFlagsOf(command);
  if (shares === "all") return [{ title: "What to do", flags: own }, ...SHARED_FLAG_GROUPS];
  const groups = [
    { title: "Flags", flags: [...own, ...SHARED_FLAGS.filter(({ name }) => name === "help")] },
    {
      title: "Flags of the daemon",
      flags: SHARED_FLAGS.filter(({ name }) => shares.includes(name)),
    },
  ];
  return groups.filter(({ flags }) => flags.length > 0);
}
