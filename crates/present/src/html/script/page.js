// The script of the report: read-outs on the pictures, and the message timeline. Everything but the timeline is
// complete without it. No library; nothing is fetched.

const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const numbers = name => { const block = find("#data-" + name); return block && JSON.parse(block.textContent); };
const token = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));
const digits = x => x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : 2);
const time = ns => ns < 1e3 ? ns.toFixed(0) + " ns" : ns < 1e6 ? digits(ns / 1e3) + " µs"
  : ns < 1e9 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
const element = (name, properties, parent) => {
  const made = Object.assign(document.createElement(name), properties);
  parent?.append(made);
  return made;
};
// First place in 0..n at which `holds`, which is false and then true; n if nowhere.
const first = (n, holds) => {
  let low = 0;
  while (low < n) { const middle = low + n >> 1; holds(middle) ? n = middle : low = middle + 1; }
  return n;
};
const redraws = []; // called when colours or widths have changed

// ---- light and dark
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches;
const redraw = () => redraws.forEach(draw => draw());
const themeButton = find("#theme") ?? element("button", { id: "theme", type: "button", textContent: "light / dark" });
if (!themeButton.isConnected) find("main").prepend(themeButton);
themeButton.hidden = false;
themeButton.onclick = () => {
  const dark = !isDark();
  if (dark === prefersDark.matches) delete root.dataset.theme; else root.dataset.theme = dark ? "dark" : "light";
  redraw();
};
prefersDark.addEventListener("change", redraw);
addEventListener("resize", redraw);
let themeOnScreen;
addEventListener("beforeprint", () => { themeOnScreen = root.dataset.theme; root.dataset.theme = "light"; redraw(); });
addEventListener("afterprint", () => {
  if (themeOnScreen) root.dataset.theme = themeOnScreen; else delete root.dataset.theme;
  redraw();
});

// ---- "copy as CSV": without this script, or without a clipboard, the link saves the file
for (const link of all("a.csv")) {
  link.addEventListener("click", event => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    const text = decodeURIComponent(link.href.slice(link.href.indexOf(",") + 1));
    const say = what => { const was = link.textContent; link.textContent = what; setTimeout(() => link.textContent = was, 2e3); };
    navigator.clipboard.writeText(text).then(() => say("copied"), () => say("not copied"));
  });
}
