
// ---- what the page has is brought to life
let showCell = () => {}; // shows the messages of a cell of the heat map, once there is a timeline
const data = { spectrum: numbers("spectrum"), heat: numbers("heat"), timeline: numbers("timeline") };
if (data.spectrum) spectrum(data.spectrum);
if (data.heat) heat(data.heat);
all("#fig-anatomy .views").forEach(slides);
all("main svg").filter(svg => !svg.hasAttribute("tabindex") && !svg.closest(".slides")).forEach(titled);

// What is folded opens for whoever goes there, and its canvas gets its size.
const unfold = target => { for (let box = target?.closest("details"); box; box = box.parentNode.closest("details")) box.open = true; };
const goTo = () => { const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1)); if (target) { unfold(target); target.scrollIntoView(); } };
addEventListener("hashchange", goTo);
goTo();
for (const link of all("nav a")) link.addEventListener("click", () => unfold(document.getElementById(link.hash.slice(1))));
for (const fold of all("details.fold")) fold.addEventListener("toggle", redraw);
let wereClosed = [];
addEventListener("beforeprint", () => { wereClosed = all("details.fold:not([open])"); wereClosed.forEach(fold => fold.open = true); });
addEventListener("afterprint", () => wereClosed.forEach(fold => fold.open = false));
const places = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) find(`nav a[href="#${target.id}"]`)?.classList.toggle("here", isIntersecting);
}, { rootMargin: "-10% 0px -60% 0px" });
all("nav a").map(link => document.getElementById(link.hash.slice(1))).filter(Boolean).forEach(one => places.observe(one));

// ---- keys of the page
const help = element("dialog", { id: "keys" }, document.body);
help.innerHTML = "<h2>Keys</h2><p><kbd>j</kbd> <kbd>k</kbd> next and previous figure, opened &middot; <kbd>o</kbd> open or fold all</p>"
  + "<p>In a figure: <kbd>&larr;</kbd> <kbd>&rarr;</kbd> <kbd>&uarr;</kbd> <kbd>&darr;</kbd> read off; <kbd>Shift</kbd> and an arrow in the heat map choose a span of time, which the other figures then show; <kbd>Esc</kbd> lets go</p>"
  + "<p><kbd>n</kbd> the slowest message, then the next slowest &middot; <kbd>?</kbd> this help</p><form method=\"dialog\"><button>close</button></form>";
let figureNow = -1;
addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input,select,textarea,canvas")) return;
  const stops = all("main .first figure, main details.fold");
  if (event.key === "?") help.open ? help.close() : help.showModal();
  else if (event.key === "j" || event.key === "k") {
    figureNow = clamp(figureNow + (event.key === "j" ? 1 : -1), 0, stops.length - 1);
    if (stops[figureNow].matches("details")) stops[figureNow].open = true;
    stops[figureNow].scrollIntoView();
    find("svg[tabindex]", stops[figureNow])?.focus({ preventScroll: true });
  } else if (event.key === "o") { const any = all("details.fold:not([open])").length > 0; all("details.fold").forEach(fold => fold.open = any); }
  else if (event.key === "n") {
    const button = find("figure [data-do=next]");
    if (button) { unfold(button); button.click(); button.closest("figure").scrollIntoView({ block: "center" }); }
  }
});

if (data.timeline) {
  const packed = find("#log");
  unpack(data.timeline, packed.textContent).then(log => {
    packed.textContent = "";
    showCell = timeline(data.timeline, log);
  }).catch(error => {
    find("#tl-detail").textContent = `This browser cannot unpack the message log (${error.message}). The other figures do not need it.`;
  });
}
