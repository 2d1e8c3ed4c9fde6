// ---- the message timeline
const SAMPLED = 1, LOST = 2; // bits of a message's kind
const SPAN = 500; // smallest span on the screen, ns
const HEIGHT = 420, STRIP = 44, TOP = 26, BOTTOM = 24, LEFT = 72;
const STAGES_FROM = 5, TIME_FROM = 40; // widths from which a message shows its stages and its time, pixels
const SLOTS = 16; // rows of a lane for messages in flight at the same time, at most

function timeline(info, log) {
  const box = find("#timeline"), canvas = find("#tl-main"), strip = find("#tl-strip"), detail = find("#tl-detail");
  const g = canvas.getContext("2d"), s = strip.getContext("2d"), stripImage = document.createElement("canvas");
  const note = tip(box), chooser = find("#tl-case"), cases = [];
  const K = info.stages.length, low = info.stages.map(stage => stage.far);
  let from = 0;
  for (const one of info.cases) { cases.push(index(log, from, one)); from += one.kept; }
  let c = cases[0], mode = "wall", wall, ranks, selected = -1, cell = null, measured = null;
  let width = 0, plot = 1, colour, pending = 0;
  const font = (size = 12, weight = "") => `${weight} ${size}px system-ui, "Noto Sans", "DejaVu Sans", sans-serif`;
  const everything = () => { wall = { a: c.from, b: c.to }; ranks = { a: 0, b: deepest() }; };
  const deepest = () => Math.log10(Math.max(2, c.before[c.n]));
  const xOf = ns => LEFT + (ns - wall.a) / (wall.b - wall.a) * plot;
  const nsAt = x => wall.a + (x - LEFT) / plot * (wall.b - wall.a);
  const place = y => ranks.a + (y - TOP) / (HEIGHT - TOP - BOTTOM) * (ranks.b - ranks.a); // percentile, stretched
  // The message at a stretched percentile, as a position in `order`.
  const ranked = u => clamp(first(c.n, j => c.before[j + 1] > c.before[c.n] * (1 - 10 ** -u)), 0, c.n - 1);

  function text(g, words, x, y, align, style) { g.textAlign = align; g.fillStyle = style; g.fillText(words, x, y); }
  function prepare() {
    colour = { stages: info.stages.map(stage => token(stage.colour)) };
    for (const name of ["fg", "bg", "mut", "line", "grid", "warn", "likely"]) colour[name] = token("--" + name);
    width = Math.max(260, canvas.clientWidth);
    plot = width - LEFT - (width > 600 ? 76 : 12);
    const scale = devicePixelRatio || 1;
    for (const [one, height] of [[canvas, HEIGHT], [strip, STRIP], [stripImage, STRIP]]) {
      one.width = Math.round(width * scale);
      one.height = Math.round(height * scale);
      one.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    paintStrip(stripImage.getContext("2d"));
  }

  const isWide = (i, k) => (c.end[i] - c.start[i]) * k >= STAGES_FROM;
  // The slowest message that starts in each pixel column, of a sorted list; those that are wide enough are not in it.
  function columns(list, begin, until, k, origin, wideFrom = k) {
    const best = new Int32Array(Math.ceil(plot) + 1).fill(-1);
    for (let j = begin; j < until; j++) {
      const i = list[j];
      if (isWide(i, wideFrom)) continue;
      const x = (c.start[i] - origin) * k | 0;
      if (x >= 0 && x < best.length && (best[x] < 0 || c.rank[i] > c.rank[best[x]])) best[x] = i;
    }
    return best;
  }
  function bars(g, best, y, height) {
    best.forEach((i, x) => {
      if (i < 0) return;
      const lost = c.kind[i] & LOST, tall = lost ? height : Math.max(2, height * c.height(c.total[i]));
      g.fillStyle = lost ? colour.warn : colour.stages[c.blame[i]];
      g.fillRect(LEFT + x, y + height - tall, lost ? 2 : 1, tall);
    });
  }
  function paintStrip(g) {
    g.clearRect(0, 0, width, STRIP);
    bars(g, columns(c.order.slice().sort(), 0, c.n, plot / (c.to - c.from), c.from, 0), 4, STRIP - 6);
    g.font = font(11);
    text(g, "all " + time(c.to - c.from), LEFT - 8, 26, "right", colour.mut);
  }
  function drawStrip() {
    s.clearRect(0, 0, width, STRIP);
    s.drawImage(stripImage, 0, 0, width, STRIP);
    if (mode !== "wall") return;
    const k = plot / (c.to - c.from), a = LEFT + (wall.a - c.from) * k, wide = Math.max(2, (wall.b - wall.a) * k);
    s.fillStyle = colour.bg;
    s.globalAlpha = .55;
    s.fillRect(LEFT, 0, a - LEFT, STRIP);
    s.fillRect(a + wide, 0, LEFT + plot - a - wide, STRIP);
    s.globalAlpha = 1;
    s.strokeStyle = colour.likely;
    s.lineWidth = 1.5;
    s.strokeRect(a, 1, wide, STRIP - 2);
  }

  function axis() {
    const span = wall.b - wall.a, unit = 10 ** Math.floor(Math.log10(span / 7));
    const step = [1, 2, 5, 10].find(n => n * unit >= span / 7) * unit;
    const base = span < 5e8 ? Math.floor(wall.a / step) * step : 0, places = clamp(9 - Math.floor(Math.log10(step)), 0, 9);
    for (let ns = Math.ceil(wall.a / step) * step; ns <= wall.b; ns += step) {
      g.fillStyle = colour.grid;
      g.fillRect(xOf(ns), TOP, 1, HEIGHT - TOP - BOTTOM);
      const label = base ? "+" + time(Math.round(ns - base)).replace(/\.0+ /, " ") : (ns / 1e9).toFixed(places) + " s";
      text(g, label, xOf(ns), HEIGHT - 7, "center", colour.mut);
    }
    if (base) text(g, (base / 1e9).toFixed(places) + " s", 4, HEIGHT - 7, "left", colour.mut);
  }
  // One message: the near end's time high, the far end's low, waiting as a thin line.
  function message(i, y, height, k) {
    let x = xOf(c.start[i]);
    const notch = height > 6 ? height * .3 : 0;
    for (let stage = 0; stage < K; stage++) {
      const wide = c.stages[stage][i] * c.batch * k;
      if (wide < .15) { x += wide; continue; }
      g.fillStyle = colour.stages[stage];
      if (info.stages[stage].waiting) g.fillRect(x, y + height * .6, wide, 1.5);
      else g.fillRect(x, y + (low[stage] ? notch : 0), Math.max(.4, wide - (wide > 3 ? .5 : 0)), height - notch);
      x += wide;
    }
    if (c.kind[i] & LOST) lostMark(x, y + height / 2, Math.min(6, height / 2));
  }
  function lostMark(x, y, r) {
    g.strokeStyle = colour.warn;
    g.lineWidth = 2;
    g.beginPath();
    g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x - r, y + r); g.lineTo(x + r, y - r);
    g.stroke();
  }
  const laneHeight = () => (HEIGHT - TOP - BOTTOM) / c.lanes.length;
  const slotOf = (i, lane) => { // top and height of its row, of those that are on the screen
    const height = (laneHeight() - Math.min(6, laneHeight() * .3)) / lane.rows, row = Math.min(c.slot[i], lane.rows - 1);
    return [TOP + c.lanes.indexOf(lane) * laneHeight() + 2 + row * height, Math.max(1, height - (lane.rows > 1 ? 1 : 0))];
  };
  function outline(i, lane, style, wide) {
    const [y, height] = slotOf(i, lane), x = xOf(c.start[i]);
    g.strokeStyle = style;
    g.lineWidth = wide;
    g.strokeRect(x - 1.5, y - 1.5, Math.max(3, xOf(c.end[i]) - x + 3), height + 3);
  }
  function drawWall() {
    const k = plot / (wall.b - wall.a), tall = laneHeight();
    let shown = 0;
    axis();
    g.save();
    g.beginPath();
    g.rect(LEFT, TOP, plot, HEIGHT - TOP - BOTTOM);
    g.clip();
    c.lanes.forEach((lane, at) => {
      const begin = first(lane.list.length, j => lane.reach[j] >= wall.a), wide = [];
      const until = first(lane.list.length, j => c.start[lane.list[j]] > wall.b);
      for (let j = begin; j < until; j++) {
        const i = lane.list[j];
        if (c.end[i] < wall.a) continue;
        shown++;
        if (isWide(i, k)) wide.push(i);
      }
      bars(g, columns(lane.list, begin, until, k, wall.a), TOP + at * tall + 2, tall - 6);
      lane.rows = 1 + wide.reduce((most, i) => Math.max(most, c.slot[i]), 0);
      let free = -1;
      for (const i of wide) {
        const [top, height] = slotOf(i, lane), end = xOf(c.end[i]), start = Math.max(LEFT, xOf(c.start[i]));
        message(i, top, height, k);
        if (end - start < TIME_FROM || height < 12 || start < free) continue;
        const inside = end > LEFT + plot - 60;
        text(g, time(c.total[i]), inside ? Math.min(end, LEFT + plot) - 4 : end + 4, top + 11, inside ? "right" : "left", colour.mut);
        free = end + 62;
      }
      if (cell) for (let j = begin; j < until; j++) if (inCell(lane.list[j])) outline(lane.list[j], lane, colour.likely, 2);
      if (selected >= 0 && laneOf(selected) === lane) outline(selected, lane, colour.fg, 1.5);
    });
    if (measured) {
      const [x0, x1] = measured.map(xOf);
      g.globalAlpha = .2;
      g.fillStyle = colour.likely;
      g.fillRect(Math.min(x0, x1), TOP, Math.abs(x1 - x0), HEIGHT);
      g.globalAlpha = 1;
    }
    g.restore();
    if (measured) text(g, time(Math.abs(measured[1] - measured[0])), clamp((xOf(measured[0]) + xOf(measured[1])) / 2, LEFT, LEFT + plot), 18, "center", colour.fg);
    const every = Math.ceil(14 / tall);
    c.lanes.forEach((_, at) => {
      if (at % every === 0) text(g, "conn " + Math.ceil(at * c.connections / c.lanes.length), LEFT - 8, TOP + (at + .5) * tall + 4, "right", colour.mut);
    });
    g.font = font();
    if (width > 600) [shown, "messages", "in " + time(wall.b - wall.a)].forEach((line, at) => text(g, line, LEFT + plot + 6, TOP + 10 + 14 * at, "left", colour.mut));
    return shown;
  }

  // Each row of pixels averages whole messages of its percentiles, so the parts add up.
  function drawRanks() {
    const right = LEFT + plot - 40, wide = right - LEFT;
    let y = TOP, labelled = HEIGHT;
    while (y < HEIGHT - BOTTOM) {
      const j = ranked(place(y));
      let next = y + 1;
      while (next < HEIGHT - BOTTOM && ranked(place(next)) === j) next++;
      const until = Math.max(j + 1, Math.min(c.n, ranked(place(next)))), tall = next - y - (next - y > 4 ? 1 : 0);
      const parts = c.sums.map(sum => sum[until] - sum[j]), sum = parts.reduce((a, b) => a + b, 0);
      let x = LEFT;
      parts.forEach((part, stage) => {
        g.fillStyle = colour.stages[stage];
        g.fillRect(x, y, part / (sum || 1) * wide, tall);
        x += part / (sum || 1) * wide;
      });
      const one = until - j === 1, label = next - y >= 12;
      if (j >= c.arrived) {
        g.strokeStyle = colour.warn;
        g.strokeRect(LEFT + .5, y + .5, wide - 1, Math.max(0, tall - 1));
      }
      if (one && c.order[j] === selected) {
        g.strokeStyle = colour.fg;
        g.lineWidth = 2;
        g.strokeRect(LEFT, y, wide, tall);
        g.lineWidth = 1;
      }
      if (label) labelled = Math.min(labelled, y);
      if (label) text(g, j >= c.arrived ? "lost" : time(c.total[c.order[j]]), right + 6, (y + next) / 2 + 4, "left", colour.mut);
      y = next;
    }
    for (const [u, name] of [[0, "fastest"], [Math.log10(2), "p50"], [1, "p90"], [2, "p99"], [3, "p99.9"], [4, "p99.99"], [5, "p99.999"]]) {
      const y = TOP + (u - ranks.a) / (ranks.b - ranks.a) * (HEIGHT - TOP - BOTTOM);
      if (y < TOP || y > HEIGHT - BOTTOM) continue;
      g.fillStyle = colour.bg;
      g.fillRect(LEFT, y, wide, 1);
      text(g, name, LEFT - 8, y + (u ? 4 : 10), "right", colour.fg);
      if (y < labelled - 8 && ranked(u) < c.arrived) text(g, time(c.total[c.order[ranked(u)]]), right + 6, y + (u ? 4 : 10), "left", colour.mut);
    }
    for (const share of [0, 25, 50, 75, 100]) text(g, share + " %", LEFT + wide * share / 100, HEIGHT - 7, "center", colour.mut);
    text(g, "share of the message’s own time", LEFT, 16, "left", colour.mut);
    text(g, "total", right + 6, 16, "left", colour.mut);
  }

  function paint() {
    pending = 0;
    g.clearRect(0, 0, width, HEIGHT);
    g.font = font();
    const shown = mode === "wall" ? drawWall() : drawRanks() ?? c.n;
    drawStrip();
    // What is on the screen, for tests and for programs that read the page.
    Object.assign(canvas.dataset, { shows: mode, case: c.name, from: wall.a, to: wall.b, depth: ranks.b - ranks.a, selected, shown });
  }
  const draw = () => { pending ||= requestAnimationFrame(paint); };

  const laneOf = i => c.lanes[Math.floor(c.connection[i] * c.lanes.length / c.connections)];
  const inCell = i => !(c.kind[i] & LOST) && c.start[i] >= cell.from && c.start[i] < cell.to && c.total[i] >= cell.low && c.total[i] < cell.high;
  function look(range, a, b, least, from, to) {
    const span = clamp(b - a, Math.min(least, to - from), to - from), middle = (a + b) / 2;
    range.a = clamp(middle - span / 2, from, to - span);
    range.b = range.a + span;
    draw();
  }
  const lookWall = (a, b) => look(wall, a, b, SPAN, c.from, c.to);
  const lookRanks = (a, b) => look(ranks, a, b, .05, 0, deepest());
  function zoom(factor, x = LEFT + plot / 2) {
    if (mode === "rank") {
      const middle = (ranks.a + ranks.b) / 2, half = (ranks.b - ranks.a) / 2 * factor;
      return lookRanks(middle - half, middle + half);
    }
    const fixed = nsAt(clamp(x, LEFT, LEFT + plot)), span = Math.max(SPAN, (wall.b - wall.a) * factor);
    const a = fixed - (fixed - wall.a) / (wall.b - wall.a) * span;
    lookWall(a, a + span);
  }
  function pan(share) {
    const [range, move] = mode === "wall" ? [wall, lookWall] : [ranks, lookRanks], by = (range.b - range.a) * share;
    move(range.a + by, range.b + by);
  }
  // The message at a point: the slowest within two pixels.
  function at(x, y) {
    if (y < TOP || y >= HEIGHT - BOTTOM || x < LEFT || x > LEFT + plot) return -1;
    if (mode === "rank") return c.order[ranked(place(y))];
    const lane = c.lanes[Math.floor((y - TOP) / laneHeight())], slack = 2 * (wall.b - wall.a) / plot, ns = nsAt(x);
    let found = -1;
    for (let j = first(lane.list.length, j => lane.reach[j] >= ns - slack); j < lane.list.length && c.start[lane.list[j]] <= ns + slack; j++) {
      const i = lane.list[j], [top, height] = slotOf(i, lane);
      if (c.end[i] < ns - slack) continue;
      if (isWide(i, plot / (wall.b - wall.a)) && y >= top && y <= top + height) return i;
      if (found < 0 || c.rank[i] > c.rank[found]) found = i;
    }
    return found;
  }
  function words(i) {
    const slower = 100 * c.before[c.rank[i]] / c.before[c.n];
    const took = c.kind[i] & LOST ? "lost" : `${time(c.total[i])}, slower than ${slower.toFixed(slower > 99 ? 3 : 1)} % of the messages`;
    return `connection ${c.connection[i]}, ${took}`;
  }
  function select(i) {
    selected = i;
    detail.textContent = i < 0 ? "Click a message, or press n, to see its parts." : "";
    if (i >= 0) {
      element("b", { textContent: `${words(i)}, sent at ${(c.start[i] / 1e9).toFixed(6)} s` }, detail);
      const bar = element("div", { className: "tl-bar" }, detail), keys = element("div", {}, detail);
      info.stages.forEach((stage, k) => {
        const share = c.stages[k][i] / (c.total[i] || 1) * 100;
        element("i", {}, bar).style.cssText = `width:${share}%;background:var(${stage.colour})`;
        const key = element("span", { className: "tl-key" }, keys);
        element("i", {}, key).style.background = `var(${stage.colour})`;
        key.append(`${stage.name} `, element("b", { textContent: time(c.stages[k][i]) }));
      });
    }
    draw();
  }
  function setMode(next) {
    mode = next;
    for (const button of all("[data-mode]", box)) button.setAttribute("aria-pressed", button.dataset.mode === mode);
    draw();
  }
  function setCase(next) {
    c = cases[next];
    if (chooser) chooser.value = next;
    [selected, cell, measured] = [-1, null, null];
    everything();
    prepare();
    select(-1);
  }
  function go(i) {
    setMode("wall");
    const long = Math.max(SPAN, c.end[i] - c.start[i]);
    lookWall(c.start[i] - long * .3, c.start[i] + long * 1.3);
    select(i);
  }
  // The next slowest of those that arrived.
  const next = () => { if (c.arrived) go(c.order[selected < 0 || !c.rank[selected] ? c.arrived - 1 : Math.min(c.rank[selected], c.arrived) - 1]); };

  const home = () => { cell = measured = null; everything(); draw(); };
  all("[data-mode]", box).forEach(button => button.onclick = () => setMode(button.dataset.mode));
  const actions = { in: () => zoom(.5), out: () => zoom(2), all: home, next };
  all("[data-do]", box).forEach(button => button.onclick = actions[button.dataset.do]);
  if (chooser) chooser.onchange = () => setCase(+chooser.value);
  const keys = { ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), ArrowUp: () => pan(-.2), ArrowDown: () => pan(.2),
    "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6), Home: home, n: next };
  canvas.addEventListener("keydown", event => {
    const vertical = event.key === "ArrowUp" || event.key === "ArrowDown";
    if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key] || vertical && mode === "wall") return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    zoom(Math.exp(clamp(event.deltaY, -240, 240) * .0016), event.offsetX);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, y: event.offsetY, moved: 0, measure: event.shiftKey, wall: { ...wall }, ranks: { ...ranks } };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag) {
      const i = at(event.offsetX, event.offsetY);
      if (i < 0) return note.hide();
      return note.show(event, words(i) + (c.kind[i] & LOST ? "" : `\nmostly ${info.stages[c.blame[i]].name}: ${time(c.stages[c.blame[i]][i])}`));
    }
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    drag.moved = Math.max(drag.moved, Math.abs(dx) + Math.abs(dy));
    note.hide();
    if (drag.moved < 4) return;
    if (drag.measure && mode === "wall") { measured = [nsAt(drag.x), nsAt(event.offsetX)]; return draw(); }
    const [was, move, by] = mode === "wall" ? [drag.wall, lookWall, dx / plot] : [drag.ranks, lookRanks, dy / (HEIGHT - TOP - BOTTOM)];
    move(was.a - by * (was.b - was.a), was.b - by * (was.b - was.a));
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && drag.moved < 4) { measured = null; select(at(event.offsetX, event.offsetY)); }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => drag = null);
  canvas.addEventListener("pointerleave", note.hide);
  const moveTo = event => {
    const middle = c.from + (event.offsetX - LEFT) / plot * (c.to - c.from), half = (wall.b - wall.a) / 2;
    lookWall(middle - half, middle + half);
  };
  strip.addEventListener("pointerdown", event => { strip.setPointerCapture(event.pointerId); setMode("wall"); moveTo(event); });
  strip.addEventListener("pointermove", event => { if (event.buttons) moveTo(event); });

  // The table of the slowest messages leads here.
  all("#fig-timeline details table tr").slice(1).forEach((row, at) => {
    const [chosen, i] = info.slowest[at];
    element("button", { type: "button", textContent: "show", onclick() { show(chosen); go(i); unfold(canvas), canvas.scrollIntoView({ block: "center" }); } }, row.cells[0]);
  });
  const show = chosen => { if (c !== cases[chosen]) setCase(chosen); };
  redraws.push(() => { prepare(); draw(); });
  // A span of time that was chosen in a heat map: seen here, and its mean message beside the stages.
  spanListeners.push(span => {
    const chosen = span ? cases.findIndex(one => one.id === span.map.case) : -1;
    if (chosen < 0) return;
    show(chosen);
    setMode("wall");
    lookWall(span.from, span.to);
    const parts = new Float64Array(K);
    let n = 0, whole = 0;
    for (let i = 0; i < c.n; i++) {
      if (c.kind[i] & LOST || c.start[i] < span.from || c.start[i] >= span.to) continue;
      const weight = c.kind[i] & SAMPLED ? c.weight : 1;
      n += weight;
      for (let k = 0; k < K; k++) { parts[k] += weight * c.stages[k][i]; whole += weight * c.stages[k][i]; }
    }
    const before = find("#fig-stages .panels");
    if (!before || !n) return;
    const mean = element("div", { className: "span-stages" }), bar = element("div", { className: "tl-bar" }), keys = element("div", {});
    mean.append(element("p", { className: "span-note", textContent: `The span: mean of ${Math.round(n)} messages, ${time(whole / n)}` }), bar, keys);
    info.stages.forEach((stage, k) => {
      element("i", {}, bar).style.cssText = `width:${parts[k] / whole * 100}%;background:var(${stage.colour})`;
      const key = element("span", { className: "tl-key" }, keys);
      element("i", {}, key).style.background = `var(${stage.colour})`;
      key.append(`${stage.name} `, element("b", { textContent: time(parts[k] / n) }));
    });
    before.after(mean);
    spans.push(mean);
  });
  box.classList.add("ready"); // from here on it has a size
  everything();
  prepare();
  select(-1);
  paint();
  performance.mark("timeline");
  // Shows the messages of a case (by its id) that lie in a cell of the heat map.
  return (id, range) => {
    const chosen = cases.findIndex(one => one.id === id);
    if (chosen < 0) return;
    show(chosen);
    setMode("wall");
    cell = range;
    const edge = (range.to - range.from) * .1;
    lookWall(range.from - edge, range.to + edge);
    select(-1);
    detail.textContent = `${c.order.filter(inCell).length} of the ${range.count} messages of the cell are in this file: outlined.`;
    unfold(canvas);
    canvas.scrollIntoView({ block: "center" });
  };
}

