/** `signpost licenses`: prints the notices of the packages in this program. */
import { NOTICES } from "./notices.ts";

/** The notice of a package in the program: its publisher, SPDX licence, and licence file or headers. */
export type Notice = typeof NOTICES[number];

export function licensesReport(): string {
  const list = NOTICES.map(({ name, version, publisher, license }) =>
    `  ${name} ${version} (${publisher}): ${license}`
  );
  const texts = NOTICES.map(({ name, version, text }) =>
    `${"=".repeat(76)}\n${name} ${version}\n\n${text}\n`
  );
  return "signpost is under the Apache License 2.0. The program also contains:\n\n" +
    `${list.join("\n")}\n\n${texts.join("\n")}`;
}
