/**
 * Adapter: has the library behind TLS make itself ready while the other modules are loaded.
 *
 * AWS-LC, which Deno's TLS is made of, measures the jitter of the processor before the first random
 * number of a process: 50 ms of computing (aws-lc-rs, "Entropy configuration") that the first
 * request would have to wait for. To make a key is what Deno does on another thread.
 *
 * @module
 */

// Where it fails, it does so again where it is needed, and is reported there.
crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign"]).catch(() => {});
