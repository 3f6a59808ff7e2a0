/**
 * Finds the sources of Debian's packages on this machine, in apt's own sources.
 *
 * @module
 */
import type { Suite } from "./catalog.ts";

/** An archive, and the keys that sign it where its source names them. */
export interface Mirror {
  readonly uri: string;
  readonly signedBy?: string;
}

/** The two archives of Debian. */
export interface Mirrors {
  readonly main: Mirror;
  readonly security: Mirror;
}

/** The mirrors of Debian's own pages, for machines whose apt has other sources. */
const PUBLIC: Mirrors = {
  main: { uri: "http://deb.debian.org/debian" },
  security: { uri: "http://deb.debian.org/debian-security" },
};

const CODE_NAMES =
  /^(?:buster|bullseye|bookworm|trixie|forky|duke|sid|stable|oldstable|oldoldstable|testing|unstable)(-security|\/updates)?(?:-updates|-backports)?$/;

interface Source extends Mirror {
  readonly suites: readonly string[];
}

/**
 * The mirrors that a machine's sources name; Debian's public ones where they name none.
 *
 * @param files texts of `sources.list` (one line each) and of `*.sources` (stanzas)
 */
export function mirrorsOf(files: readonly string[]): Mirrors {
  const sources = files.flatMap((text) => [...lineSources(text), ...stanzaSources(text)]);
  const find = (isSecurity: boolean) =>
    sources.find(({ suites }) =>
      suites.some((suite) => {
        const match = CODE_NAMES.exec(suite);
        return match !== null && (match[1] !== undefined) === isSecurity;
      })
    );
  const [main, security] = [find(false), find(true)];
  return {
    main: main ? mirrorOf(main) : PUBLIC.main,
    security: security ? mirrorOf(security) : PUBLIC.security,
  };
}

/** A `sources.list` with what a suite offers today, its security archive with it. */
export function sourcesList(suite: Suite, { main, security }: Mirrors): string {
  const line = ({ uri, signedBy }: Mirror, name: string) =>
    `deb ${signedBy === undefined ? "" : `[signed-by=${signedBy}] `}${uri} ${name} main\n`;
  // sid has no security archive: fixes come to it like everything else.
  return line(main, suite) + (suite === "sid" ? "" : line(security, `${suite}-security`));
}

function mirrorOf({ uri, signedBy }: Source): Mirror {
  return { uri, ...(signedBy !== undefined && { signedBy }) };
}

/** `deb [options] URI SUITE COMPONENT...`. */
function lineSources(text: string): Source[] {
  return [...text.matchAll(/^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)/gm)].map(
    ([, options = "", uri = "", suite = ""]) => {
      const signedBy = /\bsigned-by=(\S+)/i.exec(options)?.[1];
      return { uri, suites: [suite], ...(signedBy !== undefined && { signedBy }) };
    },
  );
}

/** Fields in the form of deb822, stanzas with an empty line between. */
function stanzaSources(text: string): Source[] {
  return text.split(/\n\s*\n/).flatMap((stanza) => {
    const field = (name: string) =>
      new RegExp(`^${name}:[ \\t]*(.*(?:\\n[ \\t]+.*)*)`, "im").exec(stanza)?.[1]?.trim();
    const [uri] = field("URIs")?.split(/\s+/) ?? [];
    if (uri === undefined || !/\bdeb\b/.test(field("Types") ?? "")) return [];
    if (/^no$/i.test(field("Enabled") ?? "")) return [];
    const signedBy = field("Signed-By");
    // A key may stand in the field itself; apt's trusted keys have to do then.
    const path = signedBy?.startsWith("/") ? signedBy.split(/[\s,]+/)[0] : undefined;
    return [{
      uri,
      suites: field("Suites")?.split(/\s+/) ?? [],
      ...(path !== undefined && { signedBy: path }),
    }];
  });
}
