/** A table of another program, on which nft 1.0.6 crashes if nft 1.1.3 or newer wrote it. */

/** Has a set of one plain type. */
export const FOREIGN_TABLE = `table inet hostfw {
  set wan { type ifname; elements = { "eth9" } }
  chain input { type filter hook input priority -5; policy accept; iifname @wan counter accept; }
}
`;
