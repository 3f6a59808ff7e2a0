/**
 * What nft or the kernel refused, word for word, and what to do about just that.
 *
 * @module
 */
import type { ApplyError } from "../../../model/kernel/dataplane.ts";
import { oneLine } from "../../../model/values/text.ts";

/** The versions that were found; `""`: not known. */
export interface Versions {
  readonly nft: string;
  readonly kernel: string;
}

const LONGEST_QUOTE = 240;

/** Who refuses what, in one line: `nft 1.0.6 on kernel 6.12.117 refuses: "Error: …" at "…"`. */
export function refusalOf(error: ApplyError, { nft, kernel }: Versions): string {
  const { words, rule } = quote(error);
  const place = rule === "" ? "" : ` at "${rule}"`;
  return `nft ${nft || "of an unknown version"} on kernel ${kernel} refuses: "${words}"${place}`;
}

/** The first error with the line of the script that nft prints below it. */
function quote({ cause, message }: ApplyError): { readonly words: string; readonly rule: string } {
  const lines = typeof cause === "string" ? cause.split("\n") : [message];
  const at = lines.findIndex((line) => line.includes("Error:"));
  const words = (lines[at] ?? lines[0] ?? "").replace(/^.*?(?=Error:)/, "");
  const rule = at < 0 ? "" : lines[at + 1] ?? "";
  return { words: oneLine(words, LONGEST_QUOTE), rule: oneLine(rule, LONGEST_QUOTE) };
}

/** The modules that nftables mode needs, in the order of systemd/signpost-modules.conf. */
export const NFTABLES_MODULES: readonly string[] = [
  "nf_tables",
  "nf_conntrack",
  "nft_ct",
  "nft_chain_nat",
  "nft_nat",
  "nft_masq",
  "nft_numgen",
  "nft_fib_inet",
  "nft_reject_inet",
];

/**
 * What to do about a refusal.
 *
 * @param options the modules that may be missing
 */
export function adviceFor(
  { cause, message }: ApplyError,
  { modules = NFTABLES_MODULES }: { readonly modules?: readonly string[] } = {},
): string {
  const said = typeof cause === "string" ? cause : message;
  if (/syntax error|typeof serialization|unknown|unexpected/i.test(said)) {
    return "this nft does not know it: install nft 1.0.1 or newer";
  }
  if (/No such file or directory|Protocol not supported|not supported by protocol/.test(said)) {
    return `a kernel module is missing: run modprobe -a ${modules.join(" ")} on the node itself ` +
      "(systemd/signpost-modules.conf does so at boot), or use --proxy-mode iptables";
  }
  return "use an nft or a kernel that takes it, or --proxy-mode iptables";
}
