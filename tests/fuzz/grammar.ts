/** The lines that scripts of both modes may have. Any other line in one is a fault. */

const NAME = "[A-Za-z0-9][A-Za-z0-9./_-]{0,254}";
const IP = "ip6?";
const PROTOCOL = "(?:tcp|udp|sctp)";
const ADDRESS = "(?:[0-9]{1,3}(?:\\.[0-9]{1,3}){3}|[0-9a-f]*:[0-9a-f:.]+)";
const CIDR = `${ADDRESS}(?:/[0-9]{1,3})?`;
const ATOM = `(?:${CIDR}|${PROTOCOL}|[0-9]{1,5})`;
const KEY = `${ATOM}(?: \\. ${ATOM})*`;
const COMMENT = ' comment "[a-z0-9][a-z0-9.:/-]{0,127}"';
const MARK = "0x[0-9a-f]{1,8}";
const PORT_KEY = "meta l4proto \\. th dport";
const VIP_KEY = `${IP} daddr \\. ${PORT_KEY}`;
const DESTINATION = `(?:${ADDRESS}|\\[[0-9a-f:.]+\\]):[0-9]{1,5}`;
const INTERFACE = 'iifname(?: !=)? "[\\w.:@+*-]{1,16}"';
const POD = `(?:${IP} saddr(?: !=)? ${CIDR}|${INTERFACE})`;
const NODE_ADDRESS =
  `(?:${IP} daddr \\{ ${CIDR}(?:, ${CIDR})* \\} )?${IP} daddr != (?:127\\.0\\.0\\.0/8|::1) fib daddr type local`;

const SLOT =
  `(?:numgen (?:random|inc) mod [0-9]+|jhash ${IP} saddr(?: \\. ${PROTOCOL} sport)? mod [0-9]+ seed ${MARK})`;

const STATEMENT = new RegExp(`^(?:${
  [
    `meta mark set meta mark \\| ${MARK}`,
    `ct status dnat meta mark & ${MARK} == ${MARK} meta mark set meta mark \\^ ${MARK} masquerade fully-random`,
    "reject",
    "drop",
    `(?:${POD} )?(?:jump|goto) ${NAME}`,
    `(?:${POD} |fib saddr type local )?(?:${VIP_KEY}|${PORT_KEY}) vmap @${NAME}`,
    "fib saddr type local jump mark-for-masquerade",
    `${NODE_ADDRESS} ${PORT_KEY} vmap @${NAME}`,
    `${IP} daddr @${NAME} (?:reject|drop|return)`,
    `ct status dnat return`,
    `fib daddr type local return`,
    `iifname != "lo" ip daddr 127\\.0\\.0\\.0/8 ct state new (?:ct status dnat accept|drop)`,
    `ct state new jump ${NAME}`,
    `ct status dnat ${IP} saddr \\. ${IP} daddr @${NAME} masquerade fully-random`,
    `${IP} daddr \\. th dport \\. ${IP} saddr @${NAME} (?:return|goto ${NAME})`,
    `dnat ${IP} to (?:${IP} daddr \\. )?${PROTOCOL} dport \\. ${SLOT} map @${NAME}`,
    `${IP} saddr @${NAME} goto ${NAME}`,
    `numgen random mod [0-9]+ 0 goto ${NAME}`,
    `numgen random mod [0-9]+ vmap \\{ [0-9]+ : goto ${NAME}(?:, [0-9]+ : goto ${NAME})* \\}`,
    `update @${NAME} \\{ ${IP} saddr timeout [0-9]{1,5}s \\}`,
    `meta l4proto ${PROTOCOL} dnat ${IP} to ${DESTINATION}`,
  ].join("|")
})$`);

const ELEMENT = new RegExp(`^${KEY}(?:${COMMENT})?(?: : (?:drop|goto ${NAME}|${KEY}))?,?$`);
const TYPE =
  "typeof (?:(?:meta (?:mark|l4proto)|ip6? [sd]addr|(?:tcp|udp|sctp) dport|numgen random mod 2|verdict)(?: \\. | : )?)+";
const DECLARATION = new RegExp(
  `^${TYPE}(?:; flags (?:[a-z,]+))?(?:; gc-interval 10s)?(?:; counter)?;?$`,
);
const HOOK = /^type (?:nat|filter) hook [a-z]+ priority -?[0-9]{1,3};?$/;
const TABLE = "inet signpost";

/** The place of a line in a script of nft. */
type Place = "top" | "table" | "set" | "elements" | "chain" | "list";

const OPENERS: readonly (readonly [Place, RegExp, Place])[] = [
  ["top", new RegExp(`^table ${TABLE} \\{$`), "table"],
  ["table", new RegExp(`^(?:set|map) ${NAME} \\{$`), "set"],
  ["table", new RegExp(`^chain ${NAME} \\{$`), "chain"],
  ["set", /^elements = \{$/, "elements"],
  ["top", new RegExp(`^(?:add|delete) element ${TABLE} ${NAME} \\{$`), "list"],
];

const OUTER: Readonly<Partial<Record<Place, Place>>> = {
  table: "top",
  set: "table",
  chain: "table",
  elements: "set",
  list: "top",
};

const COMMAND = new RegExp(`^(?:${
  [
    `(?:add|delete) table ${TABLE}`,
    `(?:add|flush|delete) chain ${TABLE} ${NAME}`,
    `delete (?:set|map) ${TABLE} ${NAME}`,
  ].join("|")
})$`);
const ADD_SET = new RegExp(`^add (?:set|map) ${TABLE} ${NAME} \\{ (.*); \\}$`);
const ADD_CHAIN = new RegExp(`^add chain ${TABLE} ${NAME} \\{ (.*) \\}$`);
const ADD_RULE = new RegExp(`^add rule ${TABLE} ${NAME} (.*)$`);

/** The first line of a script for nft that signpost does not write; `undefined`: there is none. */
export function strangeNftLine(script: string): string | undefined {
  let place: Place = "top";
  for (const line of script.split("\n")) {
    const text = line.trim();
    if (text === "" && /^ *$/.test(line)) continue;
    const opened = OPENERS.find(([at, pattern]) => at === place && pattern.test(text));
    const outer: Place | undefined = OUTER[place];
    if (opened) place = opened[2];
    else if (text === "}" && outer !== undefined) place = outer;
    else if (!isMeant(text, place)) return line;
  }
  return place === "top" ? undefined : `(the end, within ${place})`;
}

function isMeant(text: string, place: Place): boolean {
  switch (place) {
    case "table":
      return false;
    case "set":
      return DECLARATION.test(text);
    case "elements":
    case "list":
      return ELEMENT.test(text);
    case "chain":
      return HOOK.test(text) || STATEMENT.test(text);
    case "top": {
      const [, declaration] = ADD_SET.exec(text) ?? [];
      const [, hook] = ADD_CHAIN.exec(text) ?? [];
      const [, rule] = ADD_RULE.exec(text) ?? [];
      return COMMAND.test(text) || DECLARATION.test(declaration ?? "") || HOOK.test(hook ?? "") ||
        STATEMENT.test(rule ?? "");
    }
  }
}

const CHAIN = "[A-Z][A-Z0-9-]{1,27}";
const HEX_MARK = "0x[0-9a-f]{1,8}(?:/0x[0-9a-f]{1,8})?";
/** In quotes: printable, and each quote, apostrophe and backslash has a backslash before it. */
const QUOTED = '"(?:[ !#-&(-\\[\\]-~]|\\\\["\'\\\\])*"';

/** Matches the words that may follow a chain's name, in any order: whole words with their arguments. */
const WORDS = new RegExp(`^(?: (?:${
  [
    `(?:! )?-[sd] ${CIDR}`,
    `(?:! )?-i (?:[\\w.:@+-]{1,16}|${QUOTED})`,
    `-p ${PROTOCOL}`,
    `-m (?:comment|conntrack|mark|addrtype|statistic|recent|${PROTOCOL})`,
    `--comment (?:[\\w-]+|${QUOTED})`,
    "(?:! )?--ctstate [A-Z,]+",
    `--ctorigdst ${CIDR}`,
    `(?:! )?--mark ${HEX_MARK}`,
    "--(?:dst|src)-type LOCAL",
    "--dport [0-9]{1,5}",
    "--mode (?:random|nth)",
    "--every [0-9]{1,5}",
    "--packet 0",
    "--probability 0\\.[0-9]{11}",
    "--rcheck",
    "--set",
    "--reap",
    "--rsource",
    "--seconds [0-9]{1,5}",
    `--name ${CHAIN}`,
    `--mask ${ADDRESS}`,
    `-j ${CHAIN}`,
    `--to-destination ${DESTINATION}`,
    "--reject-with icmp6?-port-unreachable",
    `--set-xmark ${HEX_MARK}`,
    "--random-fully",
  ].join("|")
}))*$`);

const RESTORE = new RegExp(
  `^(?:# ip6?tables-restore|\\*(?:filter|nat)|:${CHAIN} - \\[0:0\\]|-X ${CHAIN}|COMMIT)$`,
);
const RULE = new RegExp(`^-[AID] ${CHAIN}((?: .*)?)$`);

/** The first line of a script for iptables-restore that signpost does not write. */
export function strangeIptablesLine(script: string): string | undefined {
  return script.split("\n").find((line) => {
    if (line === "" || RESTORE.test(line)) return false;
    const [, words] = RULE.exec(line) ?? [];
    return words === undefined || !WORDS.test(words);
  });
}
