
// ---- a note beside the pointer, or beside what a key has chosen; read aloud when it changes
function tip(box) {
  const note = element("div", { className: "tip", hidden: true, role: "status" }, box);
  return {
    hide() { note.hidden = true; },
    show(event, text) {
      const frame = box.getBoundingClientRect();
      note.textContent = text;
      note.hidden = false;
      const beside = event.clientX - frame.left + 14;
      // To the left of the place where there is no room to its right.
      note.style.left = clamp(beside + note.offsetWidth > frame.width ? beside - 28 - note.offsetWidth : beside, 0, Math.max(0, frame.width - note.offsetWidth)) + "px";
      note.style.top = event.clientY - frame.top + 14 + "px";
    },
  };
}

// ---- read-outs of the pictures that Rust has drawn, in units of the drawing
const svgPlace = (svg, event) => {
  const geo = svg.dataset.geo ? JSON.parse(svg.dataset.geo) : null, box = svg.viewBox.baseVal;
  const frame = svg.getBoundingClientRect(), scale = box.width / frame.width;
  const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
  const inside = geo && x >= geo.left && x < geo.right && y >= geo.top && y < geo.bottom;
  return { geo, x, y, inside };
};
// Where a place of a drawing is on the screen.
const onScreen = (svg, x, y) => {
  const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
  return { clientX: frame.left + x * scale, clientY: frame.top + y * scale };
};
const shape = (svg, name, properties) => {
  const made = document.createElementNS(svg.namespaceURI, name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  return svg.appendChild(made);
};

// A drawing that is read by pointer and by keys. `read(x, y)` gives what is there: its lines of text, where the note
// stands, and how it is marked; `step(now, right, up)` the next place to go to.
function readable(svg, read, step) {
  const note = tip(svg.closest(".panels") ?? svg.parentNode);
  let marks = [], now = null;
  const hide = () => { note.hide(); marks.forEach(mark => mark.remove()); marks = []; };
  const show = (found, event) => {
    hide();
    if (!found) return;
    now = found;
    marks = (found.marks ?? []).map(([name, properties]) => shape(svg, name, { class: "pointed", ...properties }));
    note.show(event ?? onScreen(svg, found.x, found.y), found.text);
  };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("pointermove", event => { const { x, y } = svgPlace(svg, event); show(read(x, y), event); });
  svg.tabIndex = 0;
  svg.addEventListener("keydown", event => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Escape") return hide();
    if (!way || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(step(now, ...way));
  });
}

// Every drawing whose shapes have titles: the values of all lines at a cross-hair, or the shape that is pointed at.
function titled(svg) {
  const titles = all("title", svg).filter(title => title.parentNode !== svg);
  if (!titles.length) return;
  const parts = titles.map(title => ({ own: title.parentNode, text: title.textContent }));
  titles.forEach(title => title.remove()); // the browser would show a second note
  let found;
  const measure = () => found ??= parts.map(({ own, text }) => {
    const { x, y, width, height } = own.getBBox();
    return { text, x: x + width / 2, y: y + height / 2, left: x, top: y, width, height };
  }).sort((a, b) => a.x - b.x || a.y - b.y);
  const frame = (one, room) => ["rect", { x: one.left - room, y: one.top - room, width: one.width + 2 * room, height: one.height + 2 * room, rx: 2 }];
  const box = svg.viewBox.baseVal;
  if (svg.querySelector(".ln")) {
    const groups = () => measure().reduce((groups, one) => {
      const last = groups.at(-1);
      if (last && one.x - last.at(-1).x < 4) last.push(one); else groups.push([one]);
      return groups;
    }, []).map(group => group.sort((a, b) => a.y - b.y));
    let cached;
    const at = index => {
      const group = (cached ??= groups())[clamp(index, 0, cached.length - 1)], x = group[0].x;
      const lines = group.slice(0, 20).map(one => one.text);
      return { index: clamp(index, 0, cached.length - 1), x, y: group[0].y, text: lines.join("\n"), marks: [["line", { x1: x, x2: x, y1: 20, y2: box.height - 40 }], ...group.map(one => frame(one, 2.5))] };
    };
    const nearest = x => (cached ??= groups()).reduce((best, group, index) => Math.abs(group[0].x - x) < Math.abs(cached[best][0].x - x) ? index : best, 0);
    return readable(svg, x => at(nearest(x)), (now, right, up) => at((now ? now.index : -1) + (right || up)));
  }
  const at = index => {
    const list = measure(), one = list[clamp(index, 0, list.length - 1)];
    return { index: list.indexOf(one), x: one.x, y: one.y, text: one.text, marks: [frame(one, 1.5)] };
  };
  const away = (one, x, y) => Math.hypot(Math.max(0, one.left - x, x - one.left - one.width), Math.max(0, one.top - y, y - one.top - one.height));
  readable(svg, (x, y) => {
    const list = measure();
    let best = -1, least = 24;
    list.forEach((one, index) => { const far = away(one, x, y) + Math.hypot(one.x - x, one.y - y) / 1e4; if (far < least) { best = index; least = far; } });
    return best < 0 ? null : at(best);
  }, (now, right, up) => at((now ? now.index : -1) + (right || up)));
}

// The percentile spectrum: the value and interval of every series at any percentile.
function spectrum(data) {
  const svg = find("#fig-spectrum svg"), geo = JSON.parse(svg.dataset.geo);
  all("title", svg).forEach(title => title.remove());
  const at = x => {
    if (x < geo.left || x > geo.right) return null;
    const u = (x - geo.left) / (geo.right - geo.left) * geo.end;
    const lines = data.names.map((name, k) => {
      const places = data.s[k], at = first(places.length, j => places[j][0] >= u);
      if (at === places.length) return name + ": fewer messages than that";
      const [, value, low, high] = places[at];
      return `${name}: ${value === null ? "lost" : time(value)}` + (low === null && high === null ? ""
        : ` (${low === null ? "…" : time(low)} to ${high === null ? "…" : time(high)})`);
    });
    const name = `p${(100 * (1 - 10 ** -u)).toFixed(Math.max(0, Math.ceil(u - 1)))}`;
    return { x, y: (geo.top + geo.bottom) / 2, text: [name, ...lines].join("\n"), marks: [["line", { x1: x, x2: x, y1: geo.top, y2: geo.bottom }]] };
  };
  // Keys go from one named percentile to the next.
  const stops = [0, Math.log10(2), ...Array.from({ length: 24 }, (_, k) => (k + 1) / 4)].filter(u => u <= geo.end)
    .map(u => geo.left + u / geo.end * (geo.right - geo.left) * .9999).sort((a, b) => a - b);
  readable(svg, (x, y) => y >= geo.top && y < geo.bottom ? at(x) : null, (now, right, up) => {
    const way = right || up, next = way > 0 ? stops.find(x => !now || x > now.x + .5) : stops.findLast(x => now && x < now.x - .5);
    return at(next ?? now?.x ?? stops[0]);
  });
}

// The heat maps: time, latency and count of a cell. A click leads to its messages; a drag chooses a span of time.
function heat(data) {
  const seconds = ns => (ns / 1e9).toFixed(3);
  all("#fig-heat .panels:first-of-type svg").forEach((svg, position) => {
    const map = data.maps[position];
    if (!map || !svg.dataset.geo) return;
    const geo = JSON.parse(svg.dataset.geo), n = map.columns.length;
    const edge = row => map.low * (map.high / map.low) ** (row / map.rows);
    const columnAt = x => clamp(Math.floor((x - geo.left) / (geo.right - geo.left) * n), 0, n - 1);
    const xOf = column => geo.left + (geo.right - geo.left) * column / n;
    const cell = (at, row) => {
      const column = map.columns[at];
      return { from: column.from, to: column.to, low: edge(row), high: edge(row + 1), count: column.counts[row - column.first] ?? 0 };
    };
    const told = (at, row) => {
      const one = cell(at, row), high = (geo.bottom - geo.top) / map.rows, y = geo.bottom - (row + 1) * high;
      return { at, row, x: xOf(at + .5), y, text: `${seconds(one.from)} to ${seconds(one.to)} s\n${time(one.low)} to ${time(one.high)}\n${one.count} message${one.count === 1 ? "" : "s"}`,
        marks: [["rect", { x: xOf(at), y, width: xOf(1) - xOf(0), height: high }]] };
    };
    const placeAt = (x, y) => x < geo.left || x >= geo.right || y < geo.top || y >= geo.bottom ? null
      : [columnAt(x), clamp(Math.floor((geo.bottom - y) / (geo.bottom - geo.top) * map.rows), 0, map.rows - 1)];
    const fullest = at => { const { first, counts } = map.columns[at]; return first + counts.indexOf(Math.max(...counts)); };
    readable(svg, (x, y) => { const place = placeAt(x, y); return place && told(...place); }, (now, right, up) => {
      if (!now) return told(0, fullest(0));
      const at = clamp(now.at + right, 0, n - 1);
      return told(at, clamp((right ? fullest(at) : now.row) + up, 0, map.rows - 1));
    });
    // A drag over a span; a click on a cell.
    let from = null, band = null;
    const select = (a, b) => {
      const [low, high] = a < b ? [a, b] : [b, a];
      band ??= shape(svg, "rect", { class: "brush", y: geo.top, height: geo.bottom - geo.top });
      band.setAttribute("x", xOf(low));
      band.setAttribute("width", xOf(high + 1) - xOf(low));
      return [low, high];
    };
    const clear = () => { band?.remove(); band = null; };
    const choose = (low, high) => brushed({ map, low, high, from: map.columns[low].from, to: map.columns[high].to, clear });
    svg.addEventListener("pointerdown", event => {
      const { x, y } = svgPlace(svg, event), place = placeAt(x, y);
      from = place && { x, place, moved: false };
      if (from) { svg.setPointerCapture(event.pointerId); event.preventDefault(); svg.focus({ preventScroll: true }); }
    });
    svg.addEventListener("pointermove", event => {
      if (!from) return;
      const { x } = svgPlace(svg, event);
      from.moved ||= Math.abs(x - from.x) > 6;
      if (from.moved) select(from.place[0], columnAt(x));
    });
    svg.addEventListener("pointerup", event => {
      if (!from) return;
      const { x } = svgPlace(svg, event), one = cell(...from.place);
      if (from.moved) choose(...select(from.place[0], columnAt(x)));
      else if (one.count) { brushed(null); showCell(map.case, one); }
      else brushed(null);
      from = null;
    });
    svg.addEventListener("pointercancel", () => from = null);
    // Shift and an arrow choose a span without a pointer; Enter shows the messages of a cell.
    let span = null, cursor = 0;
    svg.addEventListener("keydown", event => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0;
      if (way && event.shiftKey) {
        span ??= cursor;
        cursor = clamp(cursor + way, 0, n - 1);
        choose(...select(span, cursor));
      } else if (way) { cursor = clamp(cursor + way, 0, n - 1); span = null; }
      if (event.key === "Escape") { span = null; brushed(null); }
      if (event.key === "Enter") { const one = cell(cursor, fullest(cursor)); if (one.count) showCell(map.case, one); }
    });
  });
}

// ---- a span of time, chosen in a heat map, in the other figures
let spans = [], spanNow = null;
const spanListeners = []; // called with the span, or null
function brushed(span) {
  spans.forEach(mark => mark.remove());
  spans = [];
  if (spanNow && spanNow.clear !== span?.clear) spanNow.clear();
  spanNow = span;
  if (span) { spanOfSpectrum(span); spanOfShapes(span); spanOfPoints(span); }
  spanListeners.forEach(hear => hear(span));
  root.dataset.span = span ? `${span.from}-${span.to}` : "";
}
const spanNote = (figure, text) => {
  const box = find(figure + " .panels");
  if (box) { const note = element("p", { className: "span-note", textContent: text }); box.after(note); spans.push(note); }
};
// The histogram of the span: how many messages in each row of the map.
const rowsOf = ({ map, low, high }) => {
  const rows = new Float64Array(map.rows);
  for (const { first, counts } of map.columns.slice(low, high + 1)) counts.forEach((n, k) => rows[first + k] += n);
  return rows;
};
function spanOfSpectrum(span) {
  const svg = find("#fig-spectrum svg"), rows = rowsOf(span), { map } = span, all = rows.reduce((a, b) => a + b, 0);
  if (!svg || !all || !data.spectrum) return;
  const geo = JSON.parse(svg.dataset.geo), { low, high } = data.spectrum.range;
  const y = ns => geo.bottom - (geo.bottom - geo.top) * Math.log(ns / low) / Math.log(high / low);
  let below = 0, path = "";
  rows.forEach((n, row) => {
    below += n;
    if (!n) return;
    const u = Math.min(Math.log10(all), -Math.log10(Math.max(1e-12, 1 - below / all)));
    const ns = map.low * (map.high / map.low) ** ((row + .5) / map.rows);
    if (u <= geo.end) path += `${path ? "L" : "M"}${(geo.left + u / geo.end * (geo.right - geo.left)).toFixed(1)},${clamp(y(ns), geo.top, geo.bottom).toFixed(1)}`;
  });
  spans.push(shape(svg, "path", { class: "span", d: path }));
  spanNote("#fig-spectrum", `Blue: ${map.name}, from ${(span.from / 1e9).toFixed(3)} to ${(span.to / 1e9).toFixed(3)} s of the run, ${all} messages, as exact as the rows of the heat map.`);
}
function spanOfShapes(span) {
  const svg = find("#fig-shapes svg"), shapes = numbers("shapes"), own = shapes?.rows.find(row => row.case === span.map.case);
  if (!svg || !own) return;
  const counts = rowsOf(span), most = Math.max(...counts), { map } = span;
  const x = ns => shapes.left + (shapes.right - shapes.left) * Math.log(ns / shapes.low) / Math.log(shapes.high / shapes.low);
  let path = "";
  counts.forEach((n, row) => {
    const ns = map.low * (map.high / map.low) ** ((row + .5) / map.rows);
    if (ns >= shapes.low && ns <= shapes.high) path += `${path ? "L" : "M"}${x(ns).toFixed(1)},${(own.base - shapes.tall * Math.sqrt(n / most)).toFixed(1)}`;
  });
  spans.push(shape(svg, "path", { class: "span", d: path }));
}
function spanOfPoints(span) {
  all("#fig-points svg[data-geo]").forEach(svg => {
    const geo = JSON.parse(svg.dataset.geo), x = ns => clamp(geo.left + (geo.right - geo.left) * (ns - geo.from) / (geo.to - geo.from), geo.left, geo.right);
    spans.push(shape(svg, "rect", { class: "brush", x: x(span.from), width: Math.max(1, x(span.to) - x(span.from)), y: geo.top, height: geo.bottom - geo.top }));
  });
}

// ---- a path that is clicked is bold in every figure of paths
const boldness = element("style", {}, document.head);
let bold = null;
document.addEventListener("click", event => {
  const own = event.target.closest?.("svg[data-paths] .name, svg[data-paths] circle, svg[data-paths] rect[class^=f]");
  const hue = own?.getAttribute("class").match(/\b[sft](\d)\b/)?.[1];
  if (hue === undefined) return;
  bold = bold === hue ? null : hue;
  root.dataset.bold = bold ?? "";
  boldness.textContent = bold === null ? "" : `svg[data-paths] .s${bold}{stroke-width:3.6}svg[data-paths] :is(.ln,.whisker,.noclaim):not(.s${bold},.t${bold}){opacity:.22}svg[data-paths] :is(circle,.name,.bd,rect[class^=f]):not(.f${bold},.t${bold}){opacity:.25}`;
});

// ---- views of one thing, from usual to slowest: a slider under which the parts swell
function slides(box, position) {
  const panels = all(".panels", box), inputs = all("input[type=radio]", box), stage = find("svg", panels[0]);
  const views = panels.map(panel => find("svg", panel)).map(svg => ({ html: svg.innerHTML, label: svg.getAttribute("aria-label") }));
  if (views.length < 2) return;
  const names = all("label", box).map(label => label.textContent);
  const tools = element("div", { className: "slide" });
  const slider = element("input", { type: "range", min: 0, max: views.length - 1, step: 1, value: 0, id: "slide-" + position }, tools);
  const label = element("label", { htmlFor: slider.id }, tools);
  const to = view => {
    const next = new DOMParser().parseFromString(`<svg xmlns="${stage.namespaceURI}">${views[view].html}</svg>`, "image/svg+xml").documentElement;
    const was = all("rect.stage, rect.hatched", stage), will = all("rect.stage, rect.hatched", next);
    const begin = new Map(was.filter(one => one.classList.contains("stage")).map((one, k) => [k, [one.getAttribute("x"), one.getAttribute("width")]]));
    const targets = will.filter(one => one.classList.contains("stage")).map(one => [one, one.getAttribute("x"), one.getAttribute("width")]);
    targets.forEach(([one], k) => { const from = begin.get(k); if (from) { one.setAttribute("x", from[0]); one.setAttribute("width", from[1]); } });
    stage.replaceChildren(...next.childNodes);
    stage.setAttribute("aria-label", views[view].label);
    stage.getBoundingClientRect(); // where they are now, so that they move from there
    targets.forEach(([one, x, width]) => { one.setAttribute("x", x); one.setAttribute("width", width); });
    label.textContent = names[view];
    box.dataset.view = view;
    retitle(stage);
  };
  box.classList.add("slides");
  panels[0].classList.add("stage");
  inputs[0].checked = true;
  inputs.forEach(input => input.disabled = true);
  box.prepend(tools);
  slider.addEventListener("input", () => to(+slider.value));
  stage.removeAttribute("tabindex");
  to(0);
}
// Notes of a drawing that is replaced while it is looked at.
function retitle(svg) {
  const note = svg.note ??= tip(svg.closest(".panels"));
  for (const title of all("title", svg)) {
    const own = title.parentNode, text = title.textContent;
    title.remove();
    own.addEventListener("pointermove", event => note.show(event, text));
    own.addEventListener("pointerleave", note.hide);
    own.tabIndex = 0;
    own.setAttribute("aria-label", text);
    own.addEventListener("focus", () => { const { x, y, width } = own.getBBox(); note.show(onScreen(svg, x + width / 2, y), text); });
    own.addEventListener("blur", note.hide);
  }
}
