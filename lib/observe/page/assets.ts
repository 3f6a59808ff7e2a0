/**
 * The page's style and its script, which are part of the page: it loads nothing.
 *
 * @module
 */
import { createHash } from "node:crypto";

/** Light and dark by the reader's own setting. */
export const STYLE = `
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2430;--soft:#5d6b7b;--line:#dde2e8;
--accent:#2f6fde;--good:#1a8a4a;--warn:#a86400;--bad:#c93a3a;--other:#8a94a3;--code:#eef1f5}
@media (prefers-color-scheme:dark){:root{--bg:#11161d;--card:#1a212b;--ink:#e6ebf1;--soft:#98a5b5;
--line:#2c3643;--accent:#6ea3ff;--good:#4cc380;--warn:#e0a040;--bad:#f07474;--other:#7d8998;
--code:#232c38}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main,header{max-width:70rem;margin:0 auto;padding:0 1rem}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem .75rem;padding-top:1.25rem}
h1{font-size:1.35rem;margin:0}h2{font-size:1rem;margin:0 0 .6rem}h3{font-size:.95rem;margin:0}
.soft{color:var(--soft)}
.badge{display:inline-block;border-radius:1rem;padding:.1rem .6rem;font-size:.8rem;
border:1px solid currentColor;color:var(--soft)}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}
section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem;
margin:1rem 0;overflow-x:auto}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.9rem;margin:0}
dt{color:var(--soft);font-size:.8rem}dd{margin:0;font-size:1.05rem;font-weight:600;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
dd small{font-weight:400;color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:500;color:var(--soft);font-size:.8rem}
th,td{padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}td{overflow-wrap:break-word}
form{display:flex;gap:.5rem;margin:0 0 .75rem;flex-wrap:wrap}
.load{margin-left:auto;font-variant-numeric:tabular-nums}
input,button,select{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);
border-radius:.4rem;padding:.4rem .7rem}input{flex:1 1 16rem;min-width:0}
button{background:var(--accent);border-color:var(--accent);color:#fff;cursor:pointer}
@media (prefers-color-scheme:dark){button{color:#10161d}}
a{color:var(--accent)}nav{display:flex;gap:1rem;margin-top:.75rem}
article{border-top:1px solid var(--line);padding:.9rem 0}article:first-of-type{border-top:0}
.title{display:flex;flex-wrap:wrap;gap:.3rem .5rem;align-items:center;margin-bottom:.4rem}
details{margin-top:.3rem;font-size:.85rem}summary{cursor:pointer;color:var(--soft)}
details ul{columns:18rem;margin:.4rem 0 0;padding-left:1.1rem}
svg{display:block;width:100%;height:auto}.traffic{max-width:54rem}
svg text{fill:var(--ink);font-size:11.5px;font-family:ui-monospace,"DejaVu Sans Mono",monospace}
svg .small{fill:var(--soft);font-size:10.5px;font-family:inherit}
.box{fill:var(--code);stroke:var(--line)}.wire{fill:none;stroke:var(--accent);stroke-width:1.4;
opacity:.65}.wire.stop{stroke:var(--bad);stroke-dasharray:4 3}
.hub{fill:var(--card);stroke:var(--accent);stroke-width:1.5}.hub.stop,.cross{stroke:var(--bad)}.cross{fill:none;stroke-width:1.6}
.here{fill:var(--good)}.there{fill:var(--card);stroke:var(--other);stroke-width:1.6}
.stopped{fill:var(--bad)}svg text.stopped{fill:var(--bad)}
.grid{stroke:var(--line);stroke-width:1}.full{stroke:var(--warn);fill:var(--warn)}
.partial{stroke:var(--accent);fill:var(--accent)}.range{stroke-width:3;stroke-linecap:round;
opacity:.45}.legend{display:flex;gap:1.2rem;flex-wrap:wrap;font-size:.8rem;color:var(--soft);
margin:.4rem 0 .7rem}.legend svg{display:inline-block;width:12px;height:12px;vertical-align:-1px}
footer{max-width:70rem;margin:0 auto;padding:0 1rem 1.5rem;color:var(--soft);font-size:.8rem}
`;

/** Only for comfort: reads the same page every five seconds and puts the new parts in place. */
export const SCRIPT = `
(() => {
  const live = document.getElementById("live");
  const say = (text) => { live.hidden = false; live.textContent = text; };
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["head", "state", "services"]) {
        const old = document.getElementById(id), next = page.getElementById(id);
        for (const { id } of old.querySelectorAll("details[open]")) {
          const same = next.querySelector("#" + CSS.escape(id));
          if (same) same.open = true;
        }
        old.replaceWith(next);
      }
      say("live");
    } catch {
      say("the daemon does not answer");
    }
  };
  say("live");
  setInterval(refresh, 5000);
})();
`;

function hash(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** Nothing but what is in the page itself runs or applies, and nothing is loaded from elsewhere. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${hash(STYLE)}`,
  `script-src ${hash(SCRIPT)}`,
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");
