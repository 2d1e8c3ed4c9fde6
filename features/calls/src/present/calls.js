// ---- the timeline of calls (RPC runs): one row per call, notched as in the RPC lab
const UNANSWERED = 2, PLACED = 8, SERVER = 16, CONTRADICTS = 32; // bits of a call's kind, beside SAMPLED
const NAMES = 132, TALLEST = 40, GLYPH_FROM = 3, NAME_FROM = 11; // label strip; heights of rows, pixels
const BLOCK = 64; // calls that are summed up together for thin rows
const FLOATS = ["start", "latency", "request", "reply", "received", "server", "within", "sent", "first", "waited", "lock", "late"];

// The calls of the page as columns; the format is that of embed.rs.
async function unpackCalls(info, text) {
  const bytes = await inflate(text), n = info.kept, log = { n };
  let at = 0;
  const column = name => {
    const values = FLOATS.includes(name) ? new Float64Array(n) : new Uint32Array(n);
    if (name in info.constant) return values.fill(info.constant[name]);
    at = varints(bytes, at, values);
    return values;
  };
  // Constants take no room, so their place does not matter.
  for (const name of [...info.columns, ...Object.keys(info.constant)]) log[name] = column(name);
  for (let i = 1; i < n; i++) log.start[i] += log.start[i - 1];
  for (const name of ["received", "server"]) {
    const values = log[name];
    for (let i = 0; i < n; i++) values[i] = values[i] % 2 ? -(values[i] + 1) / 2 : values[i] / 2;
  }
  const lengths = bytes.subarray(at, at + info.keys), decoder = new TextDecoder();
  at += info.keys;
  let texts = null; // decoded when first asked for
  log.keys = () => texts ??= Array.from(lengths, length => decoder.decode(bytes.subarray(at, at += length)));
  return log;
}

// What is typed into the search box as a function of a call's position; throws what is wrong with it.
function matcher(query, info, log) {
  const words = query.trim().split(/\s+/).filter(Boolean), tests = [];
  const number = (text, what) => { if (!/^\d+(\.\d+)?$/.test(text)) throw new Error(`${what} is a number, not “${text}”`); return +text; };
  while (words.length) {
    let word = words.shift(), test;
    const not = word.startsWith("!");
    if (not) word = word.slice(1);
    const [, name, value] = word.match(/^(method|key|status|conn|parent|id):(.*)$/) ?? [];
    if (word === "usec") {
      const [, low, high] = (words.shift() ?? "").match(/^([\d.]*)\.\.([\d.]*)$/) ?? [];
      if (low === undefined || !low && !high) throw new Error("usec is followed by a range, such as 100..2000");
      const from = low ? number(low, "usec") * 1e3 : 0, to = high ? number(high, "usec") * 1e3 : Infinity;
      test = i => !(log.kind[i] & UNANSWERED) && log.latency[i] >= from && log.latency[i] <= to;
    } else if (name === "method") {
      const wanted = info.kinds.map(kind => kind.name.toLowerCase() === value.toLowerCase());
      test = i => wanted[log.case[i]];
    } else if (name === "key") {
      const wanted = Uint8Array.from(log.keys(), key => key.includes(value));
      test = i => wanted[log.key[i]] === 1;
    } else if (name === "status") {
      if (["none", "unanswered"].includes(value)) test = i => (log.kind[i] & UNANSWERED) !== 0;
      else if (value === "failed") test = i => log.status[i] !== 0;
      else {
        const status = info.status.includes(value) ? info.status.indexOf(value) : number(value, "status");
        test = i => log.status[i] === status && !(log.kind[i] & UNANSWERED);
      }
    } else if (name) {
      const column = log[{ conn: "connection", parent: "parent", id: "rpcid" }[name]], wanted = number(value, name);
      test = i => column[i] === wanted;
    } else {
      const pattern = new RegExp(word);
      test = i => pattern.test(`${info.kinds[log.case[i]].name}.${log.rpcid[i]}`);
    }
    tests.push(not ? i => !test(i) : test);
  }
  return tests.length ? i => tests.every(test => test(i)) : null;
}

function calls(info, log) {
  const box = find("#calls"), canvas = find("#calls-main"), strip = find("#calls-strip"), detail = find("#calls-detail");
  const search = find("#calls-search"), found = find("#calls-found"), legend = find(".tl-keys", box);
  const g = canvas.getContext("2d"), s = strip.getContext("2d"), stripImage = document.createElement("canvas"), note = tip(box);
  const n = log.n, end = new Float64Array(n), everyone = new Uint32Array(n);
  let most = 0;
  for (let i = 0; i < n; i++) { end[i] = log.start[i] + log.latency[i]; everyone[i] = i; most = Math.max(most, log.latency[i]); }
  const key = log.latency.slice();
  for (let i = 0; i < n; i++) if (log.kind[i] & UNANSWERED) key[i] = most + 1;
  const rising = ordered(key, most + 1), rank = new Uint32Array(n);
  rising.forEach((i, j) => rank[i] = j);
  const weight = i => log.kind[i] & SAMPLED ? info.kinds[log.case[i]].weight : 1;
  const all0 = log.start[0], all1 = end.reduce((a, b) => Math.max(a, b), log.start[n - 1] + 1);
  let axis = "wall", order = "start", matches = null, list = everyone, blocks, reach, longest = 1, answered = 0, sums = null;
  let view = { a: 0, b: 1 }, rows = { a: 0, b: 1 }, selected = -1, measured = null, outlined = null;
  let hue = "kind", grouped = null;
  let width = 0, plot = 1, colour, hatch, pending = 0, parents = null;
  const room = HEIGHT - TOP - BOTTOM;
  const font = (size = 12, weight = "") => `${weight} ${size}px system-ui, "Noto Sans", "DejaVu Sans", sans-serif`;
  const kindOf = i => info.kinds[log.case[i]];
  // What the colours tell apart: the number of a call's group, and the names of the groups.
  const machines = end => { const names = [...new Set(info.pairs.map(pair => pair[end]))]; return { of: i => Math.max(0, names.indexOf(info.pairs[log.pair[i]]?.[end])), names }; };
  const connections = [...new Set(log.connection)].sort((a, b) => a - b), placeOf = new Map(connections.map((one, at) => [one, at]));
  const hues = {
    kind: { of: i => log.case[i], names: info.kinds.map(kind => kind.name) },
    connection: { of: i => placeOf.get(log.connection[i]), names: connections.map(one => `connection ${one}`) },
    client: machines("client"),
    server: machines("server"),
  };
  const own = i => hue === "kind" ? colour.kinds[log.case[i]] : colour.palette[hues[hue].of(i) % colour.palette.length];
  // Positions by group, within one by start.
  const byGroup = () => grouped ??= everyone.slice().sort((a, b) => hues[hue].of(a) - hues[hue].of(b) || a - b);
  const name = i => `${kindOf(i).name}.${log.rpcid[i]}`;
  const lost = i => (log.kind[i] & UNANSWERED) !== 0;
  const state = i => lost(i) ? "no reply" : info.status[log.status[i]] ?? `error ${log.status[i]}`;
  const origin = i => axis === "wall" ? log.start[i] : 0;
  const xOf = ns => NAMES + (ns - view.a) / (view.b - view.a) * plot;
  const nsAt = x => view.a + (x - NAMES) / plot * (view.b - view.a);
  const rowHeight = () => Math.min(TALLEST, room / Math.max(1e-9, rows.b - rows.a));
  const follows = () => axis === "wall" && order === "start"; // rows are those that are on the screen
  const deepest = () => Math.log10(Math.max(2, sums ? sums.before[list.length] : list.length));
  const wireOf = i => { const rate = kindOf(i).wire; return rate && [rate[0] * log.request[i], rate[1] * log.reply[i]]; };

  // The parts of a call, in the order of `info.stages`, ns. What cannot be placed is not split.
  function parts(i) {
    const kind = log.kind[i], latency = log.latency[i], server = Math.max(0, log.server[i]), out = [0, 0, 0, 0, 0, 0, 0];
    if (!(kind & (PLACED | SERVER))) { out[6] = latency; return out; }
    out[3] = clamp(log.lock[i] - 1, 0, server);
    out[4] = server - out[3];
    if (!(kind & PLACED) || kind & CONTRADICTS || log.received[i] < 0) { out[6] = latency - server; return out; }
    const received = log.received[i];
    out[0] = clamp(log.sent[i] - 1, 0, received);
    out[2] = clamp(log.waited[i] - 1, 0, received - out[0]);
    out[1] = received - out[0] - out[2];
    out[5] = latency - received - server;
    return out;
  }

  // ---- what is listed
  function relist() {
    const source = order === "start" ? everyone : order === "group" ? byGroup() : rising;
    list = matches ? source.filter(i => matches[i]) : source;
    if (order === "duration") list = list.slice().reverse();
    longest = 1;
    answered = 0;
    reach = new Float64Array(list.length);
    const many = Math.ceil(list.length / BLOCK);
    blocks = { slowest: new Uint32Array(many), from: new Float64Array(many), to: new Float64Array(many), bad: new Uint8Array(many) };
    for (let b = 0; b < many; b++) {
      let slowest = list[b * BLOCK], from = Infinity, to = 0, bad = 0;
      for (let j = b * BLOCK; j < Math.min(list.length, (b + 1) * BLOCK); j++) {
        const i = list[j];
        if (rank[i] > rank[slowest]) slowest = i;
        if (log.start[i] < from) from = log.start[i];
        if (end[i] > to) to = end[i];
        if (log.status[i] || log.kind[i] & UNANSWERED) bad = 1;
        if (!(log.kind[i] & UNANSWERED)) { answered++; if (log.latency[i] > longest) longest = log.latency[i]; }
        reach[j] = Math.max(end[i], j ? reach[j - 1] : 0);
      }
      [blocks.slowest[b], blocks.from[b], blocks.to[b], blocks.bad[b]] = [slowest, from, to, bad];
    }
    sums = null;
    if (order === "percentile") {
      sums = { before: new Float64Array(list.length + 1), parts: info.stages.map(() => new Float64Array(list.length + 1)) };
      for (let j = 0; j < list.length; j++) {
        const i = list[j], w = weight(i), own = lost(i) ? null : parts(i);
        sums.before[j + 1] = sums.before[j] + w;
        for (let k = 0; k < own?.length; k++) sums.parts[k][j + 1] = sums.parts[k][j] + own[k] * w;
        if (!own) for (const sum of sums.parts) sum[j + 1] = sum[j];
      }
    }
  }
  function everything() {
    view = axis === "wall" ? { a: all0, b: all1 } : { a: 0, b: longest * 1.04 };
    rows = { a: 0, b: order === "percentile" ? deepest() : Math.max(1, list.length) };
    follow();
  }
  function follow() {
    if (!follows()) return;
    const a = first(list.length, j => reach[j] >= view.a), b = first(list.length, j => log.start[list[j]] > view.b);
    rows = { a, b: Math.max(a + 1, b) };
  }
  function say() {
    let total = 0;
    for (const i of list) if (!lost(i)) total += log.latency[i];
    const what = list.length === n ? `${n} call${n === 1 ? "" : "s"}` : `${list.length} of ${n} calls match`;
    found.textContent = `${what}, ${time(total)} together${info.kept < info.logged ? `; in this file, of ${info.logged} logged` : ""}`;
  }
  function filter() {
    let test;
    try { test = matcher(search.value, info, log); } catch (error) {
      found.textContent = error.message;
      search.setAttribute("aria-invalid", "true");
      return;
    }
    search.removeAttribute("aria-invalid");
    matches = null;
    if (test) { matches = new Uint8Array(n); for (let i = 0; i < n; i++) matches[i] = test(i) ? 1 : 0; }
    outlined = measured = null;
    if (matches && selected >= 0 && !matches[selected]) select(-1);
    changed();
    say();
  }
  function changed() {
    relist();
    if (axis === "aligned" || !matches) everything(); else { rows = { a: 0, b: Math.max(1, list.length) }; follow(); }
    prepareStrip();
    draw();
  }

  // ---- drawing
  function text(g, words, x, y, align, style) { g.textAlign = align; g.fillStyle = style; g.fillText(words, x, y); }
  function cut(g, words, most) {
    if (g.measureText(words).width <= most) return words;
    while (words.length > 1 && g.measureText(words + "…").width > most) words = words.slice(0, -1);
    return words + "…";
  }
  function prepare() {
    colour = { kinds: info.kinds.map(kind => token(kind.colour)), palette: info.palette.map(token), stages: info.stages.map(stage => token(stage.colour)) };
    for (const name of ["fg", "bg", "mut", "line", "grid", "warn", "likely", "s0"]) colour[name] = token("--" + name);
    width = Math.max(320, canvas.clientWidth);
    plot = width - NAMES - (width > 600 ? 76 : 12);
    const scale = devicePixelRatio || 1;
    for (const [one, height] of [[canvas, HEIGHT], [strip, STRIP], [stripImage, STRIP]]) {
      one.width = Math.round(width * scale);
      one.height = Math.round(height * scale);
      one.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
    }
    const tile = element("canvas", { width: 5, height: 5 }), t = tile.getContext("2d");
    t.strokeStyle = colour.fg;
    t.globalAlpha = .75;
    t.beginPath();
    t.moveTo(-1, 6); t.lineTo(6, -1);
    t.stroke();
    hatch = g.createPattern(tile, "repeat");
    prepareStrip();
    keys();
  }
  // The overview: in each pixel column the slowest call that starts there, of those that match.
  function prepareStrip() {
    const g = stripImage.getContext("2d"), best = new Int32Array(Math.ceil(plot) + 1).fill(-1), k = plot / (all1 - all0);
    g.clearRect(0, 0, width, STRIP);
    let low = Infinity;
    for (const i of list) {
      const x = (log.start[i] - all0) * k | 0;
      if (best[x] < 0 || rank[i] > rank[best[x]]) best[x] = i;
      if (log.latency[i] > 0 && log.latency[i] < low) low = log.latency[i];
    }
    best.forEach((i, x) => {
      if (i < 0) return;
      const share = Math.log(log.latency[i] / low) / Math.log(longest / low), tall = lost(i) ? STRIP - 6 : (STRIP - 6) * clamp(share || 0, .1, 1);
      g.fillStyle = lost(i) ? colour.warn : own(i);
      g.fillRect(NAMES + x, STRIP - 2 - tall, lost(i) ? 2 : 1, tall);
    });
    g.font = font(11);
    text(g, "all " + time(all1 - all0), NAMES - 8, 26, "right", colour.mut);
  }
  function drawStrip() {
    s.clearRect(0, 0, width, STRIP);
    s.drawImage(stripImage, 0, 0, width, STRIP);
    if (axis !== "wall") return;
    const k = plot / (all1 - all0), a = NAMES + (view.a - all0) * k, wide = Math.max(2, (view.b - view.a) * k);
    s.fillStyle = colour.bg;
    s.globalAlpha = .55;
    s.fillRect(NAMES, 0, a - NAMES, STRIP);
    s.fillRect(a + wide, 0, NAMES + plot - a - wide, STRIP);
    s.globalAlpha = 1;
    s.strokeStyle = colour.fg;
    s.strokeRect(a + .5, .5, wide - 1, STRIP - 1);
  }
  function timeAxis() {
    const span = view.b - view.a, rough = span / (plot / 110), unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(f => f * unit).find(step => step >= rough);
    g.font = font(11);
    for (let tick = Math.ceil(view.a / step) * step; tick <= view.b; tick += step) {
      const x = xOf(tick), [scale, name] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
      g.fillStyle = colour.grid;
      g.fillRect(x, TOP, 1, room);
      const seconds = axis === "wall" ? (tick / 1e9).toFixed(clamp(-Math.floor(Math.log10(step / 1e9)), 0, 9)) + " s" : `${(tick / scale).toFixed(0)} ${name}`;
      if (x > NAMES + 20 && x < NAMES + plot - 10) text(g, seconds, x, HEIGHT - 7, "center", colour.mut);
    }
  }
  // A part that the clocks leave open, or that contradicts them, has a dashed edge and is pale.
  function bar(x, y, wide, tall, style, doubtful) {
    if (wide <= 0) return;
    g.globalAlpha = doubtful ? .4 : 1;
    g.fillStyle = style;
    g.fillRect(x, y, Math.max(.6, wide), tall);
    g.globalAlpha = 1;
    if (!doubtful || wide < 3) return;
    g.setLineDash([3, 2]);
    g.lineWidth = 1;
    g.strokeStyle = colour.fg;
    g.strokeRect(x + .5, y + .5, wide - 1, tall - 1);
    g.setLineDash([]);
  }
  function cross(x, y, r) {
    g.strokeStyle = colour.warn;
    g.lineWidth = 2;
    g.beginPath();
    g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x - r, y + r); g.lineTo(x + r, y - r);
    g.stroke();
  }
  // One call in a row of this height; its notch, its parts, and what is only estimated or not certain.
  function glyph(i, y, height, k) {
    const x = xOf(origin(i)), kind = log.kind[i], tall = height > 6 ? height - (height > 12 ? 3 : 1) : height;
    const notch = tall > 5 ? tall * .34 : tall * .2, thick = Math.max(1, tall - notch), latency = log.latency[i];
    if (lost(i)) {
      g.setLineDash([1, 3]);
      g.strokeStyle = colour.warn;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x, y + tall / 2); g.lineTo(Math.min(NAMES + plot, x + 60), y + tall / 2);
      g.stroke();
      g.setLineDash([]);
      return cross(x, y + tall / 2, Math.min(5, tall / 2));
    }
    const fill = kind & CONTRADICTS ? colour.s0 : own(i), received = log.received[i], server = log.server[i];
    if (kind & PLACED) {
      const reply = latency - received - server, within = log.within[i], against = kind & CONTRADICTS;
      const doubt = ns => against || within * 4 > Math.abs(ns);
      bar(x, y, received * k, thick, fill, doubt(received));
      bar(x + Math.max(0, received) * k, y + notch, server * k, thick, fill, false);
      bar(x + Math.min(latency, received + server) * k, y + (against ? Math.min(notch * 2, height - thick) : 0), Math.max(reply, against ? latency - received - server : 0) * k, thick, fill, doubt(reply));
      if (tall >= 6 && !against) {
        const sent = log.sent[i] - 1, waited = log.waited[i] - 1, lock = log.lock[i] - 1, first = log.first[i] - 1;
        g.fillStyle = colour.bg;
        if (sent > 0 && sent * k > 2) g.fillRect(x + Math.min(sent, received) * k - .5, y, 1, thick); // the send call returned
        if (first > received + server && (latency - first) * k > 2) g.fillRect(x + first * k - .5, y, 1, thick); // first byte of the reply
        if (waited > 0 && waited * k > 1.5) { // the request lies at the server
          g.fillRect(x + (received - waited) * k, y, waited * k, thick);
          g.fillStyle = colour.mut;
          g.fillRect(x + (received - waited) * k, y + notch + thick * .6, waited * k, 1.5);
        }
        if (lock > 0 && lock * k > 1.5) { g.fillStyle = hatch; g.fillRect(x + received * k, y + notch, Math.min(lock, server) * k, thick); }
        if (within * k > 3) { // how far T2 and T3 may be off
          g.strokeStyle = colour.fg;
          g.lineWidth = 1;
          g.setLineDash([2, 2]);
          g.beginPath();
          for (const [at, level] of [[received, thick + notch], [received + server, thick + notch - 2]]) {
            const a = x + Math.max(0, at - within) * k, b = x + Math.min(latency, at + within) * k, line = y + level - .5;
            g.moveTo(a, line); g.lineTo(b, line);
            g.moveTo(a, line - 4); g.lineTo(a, line + 1); g.moveTo(b, line - 4); g.lineTo(b, line + 1);
          }
          g.stroke();
          g.setLineDash([]);
        }
        const wire = wireOf(i);
        if (wire) for (const [from, ns, leg] of [[0, wire[0], received], [received + server, wire[1], reply]]) {
          const wide = ns * k, high = Math.max(2, thick / 3);
          if (wide < 2) continue;
          g.fillStyle = colour.bg;
          g.fillRect(x + from * k, y + thick / 2 - high / 2, wide, high);
          g.setLineDash([3, 2]);
          g.strokeStyle = colour.fg;
          g.lineWidth = .8;
          g.strokeRect(x + from * k, y + thick / 2 - high / 2, wide, high);
          g.setLineDash([]);
          const words = `estimate at ${info.wire}`;
          if (high >= 7 && leg > 0) { g.font = font(Math.min(10, high)); if (g.measureText(words).width < wide - 8) text(g, words, x + from * k + 4, y + thick / 2 + high * .36, "left", colour.fg); g.font = font(); }
        }
      }
    } else if (kind & SERVER) { // how long the server took is known, not when
      bar(x, y, latency * k, thick, fill, true);
      bar(x + (latency - server) / 2 * k, y + notch, server * k, thick, fill, true);
    } else bar(x, y, latency * k, thick, fill, false);
    if (log.status[i]) {
      g.strokeStyle = colour.warn;
      g.lineWidth = height > 6 ? 1.6 : 1;
      g.strokeRect(x - 1, y - 1, latency * k + 2, tall + 2);
      cross(x + latency * k + 6, y + tall / 2, Math.min(4, tall / 2));
    }
  }
  function outline(i, y, height, style) {
    const x = xOf(origin(i)), wide = Math.max(3, log.latency[i] / (view.b - view.a) * plot);
    g.strokeStyle = style;
    g.lineWidth = 1.5;
    g.strokeRect(x - 2, y - 1.5, wide + 4, height + 1);
  }
  function drawRows() {
    const height = rowHeight(), k = plot / (view.b - view.a), until = Math.min(list.length, Math.ceil(rows.b));
    let shown = 0;
    timeAxis();
    g.font = font();
    if (height >= GLYPH_FROM) {
      const from = Math.max(0, Math.floor(rows.a)), labels = height >= NAME_FROM, beside = [];
      g.save();
      g.beginPath();
      g.rect(NAMES, TOP - 2, plot, room + 4);
      g.clip();
      for (let j = from; j < until; j++) {
        const i = list[j], y = TOP + (j - rows.a) * height;
        if (y < TOP - 1 || y + height > TOP + room + 1) continue;
        const x0 = xOf(origin(i)), x1 = x0 + log.latency[i] * k;
        if (x1 < NAMES || x0 > NAMES + plot) continue;
        shown++;
        glyph(i, y, height, k);
        if (labels) beside.push([i, x0, lost(i) ? x0 + 60 : x1, y + Math.min(height / 2 + 4, 20)]);
        if (i === selected) outline(i, y, height, colour.fg);
        else if (i === related(selected)) outline(i, y, height, colour.likely);
        if (outlined?.(i)) outline(i, y, height, colour.likely);
      }
      g.restore();
      // Its time behind a call, or before it; none where it would hide others.
      for (const [i, x0, x1, y] of beside) {
        const words = lost(i) ? "no reply" : time(log.latency[i]), right = x1 + (log.status[i] ? 14 : 6);
        if (right + g.measureText(words).width < width) text(g, words, right, y, "left", colour.mut);
        else if (x0 - NAMES > 70) text(g, words, x0 - 6, y, "right", colour.mut);
      }
      const every = Math.max(1, Math.ceil(14 / height));
      g.font = font(11);
      for (let j = from; j < until; j++) {
        const i = list[j], y = TOP + (j - rows.a) * height;
        if (y < TOP - 1 || y + height > TOP + room + 1) continue;
        const marked = i === selected || log.status[i] || lost(i);
        if (log.status[i] || lost(i)) { g.fillStyle = colour.warn; g.fillRect(NAMES - 5, y, 3, Math.max(1, height - 1)); }
        if (labels || marked && i === selected || j % every === 0 && height >= 6) text(g, cut(g, name(i), NAMES - 14), NAMES - 8, y + Math.min(height, 14) / 2 + 4, "right", i === selected ? colour.fg : colour.mut);
      }
      g.font = font();
    } else shown = drawThin(height, k, until);
    const many = Math.max(0, until - Math.floor(rows.a));
    text(g, `${many} call${many === 1 ? "" : "s"} in ${time(view.b - view.a)}`, NAMES, 17, "left", colour.mut);
    return shown;
  }
  // Rows thinner than a glyph: each pixel row shows all the time that its calls cover, pale, and the slowest of them.
  function drawThin(height, k, until) {
    const clip = x => clamp(x, NAMES, NAMES + plot);
    let shown = 0;
    g.font = font(11);
    for (let y = 0; y < room; y++) {
      const j0 = Math.max(0, Math.floor(rows.a + y / height)), j1 = Math.min(until, Math.max(j0 + 1, Math.floor(rows.a + (y + 1) / height)));
      if (j0 >= j1) break;
      let slowest = -1, from = Infinity, to = 0, bad = 0;
      const take = (i, start, last, wrong) => {
        if (slowest < 0 || rank[i] > rank[slowest]) slowest = i;
        if (start < from) from = start;
        if (last > to) to = last;
        bad |= wrong;
      };
      if (j1 - j0 > 4 * BLOCK) {
        for (let b = Math.floor(j0 / BLOCK); b < Math.ceil(j1 / BLOCK); b++) take(blocks.slowest[b], blocks.from[b], blocks.to[b], blocks.bad[b]);
      } else for (let j = j0; j < j1; j++) { const i = list[j]; take(i, log.start[i], end[i], log.status[i] || log.kind[i] & UNANSWERED ? 1 : 0); }
      shown += j1 - j0;
      const fill = own(slowest);
      if (axis === "wall") {
        const a = clip(xOf(from)), b = clip(xOf(to));
        g.globalAlpha = .35;
        g.fillStyle = fill;
        g.fillRect(a, TOP + y, Math.max(1, b - a), 1);
        g.globalAlpha = 1;
      }
      const x = xOf(origin(slowest)), latency = log.latency[slowest];
      if (lost(slowest)) { g.fillStyle = colour.warn; g.fillRect(clip(x) - 1, TOP + y, 3, 1); }
      else {
        g.fillStyle = fill;
        g.fillRect(clip(x), TOP + y, Math.max(1, clip(x + latency * k) - clip(x)), 1);
        if (log.kind[slowest] & PLACED && log.server[slowest] * k > 1) { // the server's part, darker
          g.globalAlpha = .4;
          g.fillStyle = colour.fg;
          const a = clip(x + log.received[slowest] * k);
          g.fillRect(a, TOP + y, clip(x + (log.received[slowest] + log.server[slowest]) * k) - a, 1);
          g.globalAlpha = 1;
        }
      }
      if (bad) { g.fillStyle = colour.warn; g.fillRect(NAMES - 5, TOP + y, 3, 1); }
    }
    for (let y = 8; y < room; y += 62) {
      const j = Math.floor(rows.a + y / height);
      if (j < until) text(g, order === "start" ? "call " + (j + 1) : time(log.latency[list[j]]), NAMES - 8, TOP + y + 4, "right", colour.mut);
    }
    g.font = font();
    return shown;
  }
  // The call at a stretched percentile, as a position in `list`.
  const ranked = u => clamp(first(list.length, j => sums.before[j + 1] > sums.before[list.length] * (1 - 10 ** -u)), 0, list.length - 1);
  const place = y => rows.a + (y - TOP) / room * (rows.b - rows.a);
  // Each row of pixels averages whole calls of its percentiles, so the parts add up.
  function drawPercentiles() {
    const right = NAMES + plot - 40, wide = right - NAMES;
    g.font = font(11);
    let y = TOP, named = TOP - 12;
    while (y < TOP + room) {
      const j = ranked(place(y));
      let next = y + 1;
      while (next < TOP + room && ranked(place(next)) === j) next++;
      const until = Math.max(j + 1, Math.min(list.length, ranked(place(next)))), tall = next - y - (next - y > 4 ? 1 : 0);
      const own = sums.parts.map(sum => Math.max(0, sum[until] - sum[j])), sum = own.reduce((a, b) => a + b, 0);
      let x = NAMES;
      own.forEach((part, k) => {
        const share = part / (sum || 1) * wide;
        g.fillStyle = colour.stages[k];
        g.fillRect(x, y, share, tall);
        if ((k === 2 || k === 3) && share > 2 && tall > 3) { g.fillStyle = hatch; g.fillRect(x, y, share, tall); }
        x += share;
      });
      if (list[j] === selected) { g.strokeStyle = colour.fg; g.lineWidth = 2; g.strokeRect(NAMES, y, wide, tall); }
      if (lost(list[j])) { g.strokeStyle = colour.warn; g.strokeRect(NAMES + .5, y + .5, wide - 1, Math.max(0, tall - 1)); }
      if (y >= named + 13) { text(g, lost(list[j]) ? "no reply" : time(log.latency[list[j]]), right + 6, y + Math.min(next - y, 12) / 2 + 5, "left", colour.mut); named = y; }
      y = next;
    }
    for (const [u, name] of [[0, "fastest"], [Math.log10(2), "p50"], [1, "p90"], [2, "p99"], [3, "p99.9"], [4, "p99.99"], [5, "p99.999"]]) {
      const y = TOP + (u - rows.a) / (rows.b - rows.a) * room;
      if (y < TOP || y > TOP + room) continue;
      g.fillStyle = colour.bg;
      g.fillRect(NAMES, y, wide, 1);
      text(g, name, NAMES - 8, y + (u ? 4 : 10), "right", colour.fg);
    }
    for (const share of [0, 25, 50, 75, 100]) text(g, share + " %", NAMES + wide * share / 100, HEIGHT - 7, "center", colour.mut);
    text(g, "share of the call’s own time", NAMES, 16, "left", colour.mut);
    text(g, "T4 − T1", right + 6, 16, "left", colour.mut);
    g.font = font();
    return list.length;
  }
  function drawMeasured() {
    if (!measured || order === "percentile") return;
    const [x0, x1] = measured.map(edge => xOf(edge.ns));
    g.globalAlpha = .2;
    g.fillStyle = colour.likely;
    g.fillRect(Math.min(x0, x1), TOP, Math.abs(x1 - x0), room);
    g.globalAlpha = 1;
    g.fillStyle = colour.likely;
    for (const x of [x0, x1]) g.fillRect(x - .5, TOP, 1, room);
    const words = `${time(Math.abs(measured[1].ns - measured[0].ns))}  (${measured[0].name} to ${measured[1].name})`;
    text(g, words, clamp((x0 + x1) / 2, NAMES + 300, Math.max(NAMES + 300, NAMES + plot - 130)), 17, "center", colour.fg);
  }
  function paint() {
    pending = 0;
    g.clearRect(0, 0, width, HEIGHT);
    g.font = font();
    let shown = 0;
    if (!list.length) text(g, "No call matches the search.", NAMES + plot / 2, HEIGHT / 2, "center", colour.mut);
    else shown = order === "percentile" ? drawPercentiles() : drawRows();
    drawMeasured();
    drawStrip();
    // What is on the screen, for tests and for programs that read the page.
    Object.assign(canvas.dataset, { axis, order, hue, from: view.a, to: view.b, rowFrom: rows.a, rowTo: rows.b, selected, shown, matching: list.length });
  }
  const draw = () => { pending ||= requestAnimationFrame(paint); };
  function keys() {
    legend.textContent = "";
    const entry = (words, style, parent = legend) => {
      const made = element("span", { className: "tl-key" }, parent);
      element("i", {}, made).style.cssText = style;
      made.append(words);
      return made;
    };
    if (order === "percentile") return info.stages.forEach((stage, k) => entry(stage.name, `background:var(${stage.colour})${k === 2 || k === 3 ? ";background-image:repeating-linear-gradient(135deg,transparent 0 3px,var(--fg) 3px 4px)" : ""}`));
    const groups = hues[hue].names, most = colour.palette.length;
    if (hue !== "kind") {
      groups.slice(0, most).forEach((words, at) => entry(words, `background:var(${info.palette[at]})`));
      if (groups.length > most) entry(`${groups.length - most} more share these colours`, "");
    } else for (const kind of info.kinds) {
      const button = element("button", { type: "button", className: "tl-kind", title: "show this kind only" }, legend);
      entry(`${kind.name}, ${kind.bytes}`, `background:var(${kind.colour})`, button);
      button.onclick = () => { search.value = /\s/.test(kind.name) ? "" : search.value === `method:${kind.name}` ? "" : `method:${kind.name}`; filter(); };
    }
    if (info.wire && info.kinds.some(kind => kind.wire)) entry(`wire alone: estimate at ${info.wire}`, "background:var(--bg);border:1px dashed var(--fg);height:6px");
    if (log.within.some(ns => ns > 0)) entry("T2, T3 open by the clocks", "border:1px dashed var(--fg);opacity:.6");
    if (log.lock.some(ns => ns > 1)) entry("lock wait", "background-image:repeating-linear-gradient(135deg,transparent 0 3px,var(--fg) 3px 4px)");
    if (log.kind.some(kind => kind & CONTRADICTS)) entry("stamps contradict each other", "background:var(--s0);border:1px dashed var(--fg)");
    const sign = (mark, words) => {
      const made = element("span", { className: "tl-key" }, legend);
      element("b", { className: "na", textContent: mark }, made);
      made.append(" " + words);
    };
    if (log.status.some(Boolean)) element("b", { className: "na", textContent: " ×" }, entry("failed", "border:1.6px solid var(--warn)"));
    if (log.kind.some(kind => kind & UNANSWERED)) sign("× ···", "no reply");
  }

  // ---- looking around
  function look(a, b) {
    const [low, high] = axis === "wall" ? [all0, all1] : [0, longest * 1.04];
    const span = clamp(b - a, Math.min(SPAN, high - low), high - low), middle = (a + b) / 2;
    view.a = clamp(middle - span / 2, low, high - span);
    view.b = view.a + span;
    follow();
    draw();
  }
  function lookRows(a, b) {
    if (follows()) return;
    const high = order === "percentile" ? deepest() : Math.max(1, list.length), least = order === "percentile" ? .05 : Math.min(high, room / TALLEST);
    const span = clamp(b - a, least, high), middle = (a + b) / 2;
    rows.a = clamp(middle - span / 2, 0, high - span);
    rows.b = rows.a + span;
    draw();
  }
  function zoom(factor, x = NAMES + plot / 2) {
    if (order === "percentile") return zoomRows(factor);
    const fixed = nsAt(clamp(x, NAMES, NAMES + plot)), span = Math.max(SPAN, (view.b - view.a) * factor);
    const a = fixed - (fixed - view.a) / (view.b - view.a) * span;
    look(a, a + span);
  }
  function zoomRows(factor, y = TOP + room / 2) {
    if (follows()) return zoom(factor);
    const share = clamp((y - TOP) / room, 0, 1), fixed = rows.a + share * (rows.b - rows.a), span = (rows.b - rows.a) * factor;
    lookRows(fixed - share * span, fixed - share * span + span);
  }
  const pan = share => look(view.a + (view.b - view.a) * share, view.b + (view.b - view.a) * share);
  const panRows = share => follows() ? pan(share) : lookRows(rows.a + (rows.b - rows.a) * share, rows.b + (rows.b - rows.a) * share);
  // The call at a point: in thin rows the slowest of them.
  function at(y) {
    if (y < TOP || y >= TOP + room || !list.length) return -1;
    if (order === "percentile") return list[ranked(place(y))];
    const height = rowHeight(), j0 = Math.floor(rows.a + (y - TOP) / height);
    if (height >= 1) return j0 < list.length && j0 < rows.b ? list[j0] : -1;
    let slowest = -1;
    for (let j = j0; j < Math.min(list.length, rows.a + (y - TOP + 1) / height); j++) if (slowest < 0 || rank[list[j]] > rank[slowest]) slowest = list[j];
    return slowest;
  }
  // The nearest of T1 to T4 of the call in that row, or the place itself.
  function edge(x, y) {
    const i = at(y), ns = nsAt(x);
    if (i < 0 || lost(i)) return { ns, name: "there" };
    const begin = origin(i), edges = [["T1", 0], ["T4", log.latency[i]]];
    if (log.kind[i] & PLACED) edges.push(["T2", log.received[i]], ["T3", log.received[i] + log.server[i]]);
    const [label, nearest] = edges.reduce((a, b) => Math.abs(begin + b[1] - ns) < Math.abs(begin + a[1] - ns) ? b : a);
    return Math.abs(xOf(begin + nearest) - x) > 24 ? { ns, name: "there" } : { ns: begin + nearest, name: `${label} of ${name(i)}` };
  }
  function byId(id) {
    parents ??= new Map(Array.from(log.rpcid, (id, i) => [id, i]));
    return parents.get(id) ?? -1;
  }
  const related = i => i >= 0 && log.parent[i] ? byId(log.parent[i]) : -1;
  function short(i) {
    const parent = log.parent[i] ? `, called by ${related(i) < 0 ? log.parent[i] : name(related(i))}` : "";
    return `${name(i)}, connection ${log.connection[i]}${parent}\n${lost(i) ? "no reply" : time(log.latency[i])}, status ${state(i)}`;
  }
  function select(i) {
    selected = i;
    detail.textContent = i < 0 ? "Click a call, or press n, to see its parts." : "";
    if (i >= 0) describe(i);
    draw();
  }
  function describe(i) {
    const size = bytes => bytes ? (log.kind[i] & 4 ? "about " : "") + bytes + " B" : "of unknown length", pair = info.pairs[log.pair[i]];
    const slower = order === "percentile" || list.length === n ? `, slower than ${(100 * rank[i] / n).toFixed(rank[i] > .99 * n ? 3 : 1)} % of the calls in this file` : "";
    element("b", { textContent: `${name(i)}: ${lost(i) ? "no reply" : time(log.latency[i]) + slower}, sent at ${(log.start[i] / 1e9).toFixed(6)} s` }, detail);
    const key = log.keys()[log.key[i]], facts = [`status ${state(i)}`, `connection ${log.connection[i]}`];
    if (key) facts.push(`key ${key}`);
    facts.push(`request ${size(log.request[i])}`, `reply ${size(log.reply[i])}`);
    if (pair) facts.push(`${pair.client} → ${pair.server}`);
    if (log.late[i] > 1) facts.push(`sent ${time(log.late[i] - 1)} late`);
    const line = element("div", { textContent: facts.join(", ") }, detail);
    if (log.parent[i]) {
      const parent = related(i);
      line.append(parent < 0 ? `, called by ${log.parent[i]}, which is not in this file ` : `, called by ${name(parent)} `);
      if (parent >= 0) element("button", { type: "button", textContent: "go to it", onclick: () => go(parent) }, line);
    }
    line.append(" ");
    element("button", { type: "button", textContent: "its connection only", onclick() { search.value = `conn:${log.connection[i]}`; filter(); } }, line);
    if (lost(i)) return;
    const own = parts(i), bar = element("div", { className: "tl-bar" }, detail), keys = element("div", {}, detail);
    info.stages.forEach((stage, k) => {
      if (own[k] <= 0) return;
      element("i", {}, bar).style.cssText = `width:${own[k] / (log.latency[i] || 1) * 100}%;background:var(${stage.colour})`;
      const key = element("span", { className: "tl-key" }, keys);
      element("i", {}, key).style.background = `var(${stage.colour})`;
      const open = log.kind[i] & PLACED && log.within[i] > 0 && (k === 1 || k === 5) ? ` ±${time(log.within[i])}` : "";
      key.append(`${stage.name} `, element("b", { textContent: time(own[k]) + open }));
    });
    const wire = wireOf(i), remarks = [];
    if (wire) remarks.push(`the wire alone: estimate ${time(wire[0])} for the request, ${time(wire[1])} for the reply, at ${info.wire}`);
    if (log.kind[i] & CONTRADICTS) remarks.push("its stamps contradict each other by more than the clocks leave open, so only T4 − T1 and T3 − T2 stand");
    else if (log.kind[i] & PLACED && log.within[i] * 4 > Math.min(log.received[i], log.latency[i] - log.received[i] - log.server[i])) remarks.push("the clocks leave its two ways open; T4 − T1 and T3 − T2 stand");
    else if (!(log.kind[i] & PLACED)) remarks.push(log.kind[i] & SERVER ? "the clocks do not tell when the server worked" : "the server’s stamps are not known");
    if (remarks.length) element("div", { className: "mut", textContent: remarks.join("; ") + "." }, detail);
  }
  function set(nextAxis, nextOrder, nextHue = hue) {
    if (nextHue !== hue) grouped = null;
    [axis, order, hue] = [nextAxis, nextOrder, nextHue];
    for (const button of all("[data-hue]", box)) button.setAttribute("aria-pressed", button.dataset.hue === hue);
    for (const button of all("[data-axis]", box)) button.setAttribute("aria-pressed", button.dataset.axis === axis);
    for (const button of all("[data-order]", box)) button.setAttribute("aria-pressed", button.dataset.order === order);
    measured = null;
    relist();
    everything();
    prepareStrip();
    keys();
    draw();
  }
  function go(i) {
    if (matches && !matches[i]) { search.value = ""; filter(); }
    const j = order === "start" ? first(list.length, j => list[j] >= i) : list.indexOf(i), many = room / 20;
    if (order === "percentile") { const u = -Math.log10(1 - sums.before[j] / sums.before[list.length]); lookRows(u - .2, u + .2); }
    else if (follows()) { const long = Math.max(SPAN, log.latency[i]); look(log.start[i] - long * .6, end[i] + long * .6); }
    else { lookRows(j - many / 2, j + many / 2); if (axis === "aligned") look(0, Math.max(SPAN, log.latency[i]) * 1.3); }
    select(i);
  }
  function next() {
    for (let j = selected < 0 ? n - 1 : rank[selected] - 1; j >= 0; j--) if (!lost(rising[j]) && (!matches || matches[rising[j]])) return go(rising[j]);
  }
  const step = by => {
    const j = selected < 0 ? -1 : list.indexOf(selected), to = j < 0 ? Math.floor(rows.a) : clamp(j + by, 0, list.length - 1);
    if (order === "percentile" || !list.length) return;
    select(list[to]);
    if (follows()) { if (end[list[to]] > view.b || log.start[list[to]] < view.a) pan(by * .5); }
    else if (to < rows.a || to >= rows.b - 1) lookRows(to - (rows.b - rows.a) / 2, to + (rows.b - rows.a) / 2);
  };
  const home = () => { measured = outlined = null; everything(); draw(); };
  const actions = { in: () => zoom(.5), out: () => zoom(2), taller: () => zoomRows(.5), flatter: () => zoomRows(2), all: home, next };
  all("[data-do]", box).forEach(button => button.onclick = actions[button.dataset.do]);
  // By duration or percentile, rows that begin at their own times say nothing.
  const timed = order => order === "start" || order === "group";
  all("[data-axis]", box).forEach(button => button.onclick = () => set(button.dataset.axis, button.dataset.axis === "wall" && !timed(order) ? "start" : order));
  all("[data-order]", box).forEach(button => button.onclick = () => set(timed(button.dataset.order) ? axis : "aligned", button.dataset.order));
  all("[data-hue]", box).forEach(button => button.onclick = () => set(axis, order, button.dataset.hue));
  let typing;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(filter, 150); });
  search.addEventListener("keydown", event => {
    if (event.key === "Enter") { clearTimeout(typing); filter(); }
    if (event.key === "Escape") { search.value = ""; clearTimeout(typing); filter(); canvas.focus(); }
  });
  const shortcuts = { ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), ArrowUp: () => panRows(-.2), ArrowDown: () => panRows(.2),
    PageUp: () => zoomRows(.6), PageDown: () => zoomRows(1 / .6), "+": () => zoom(.6), "=": () => zoom(.6), "-": () => zoom(1 / .6),
    Home: home, n: next, ".": () => step(1), ",": () => step(-1), "/": () => search.focus(), p: () => { if (related(selected) >= 0) go(related(selected)); } };
  canvas.addEventListener("keydown", event => {
    if (event.ctrlKey || event.altKey || event.metaKey || !shortcuts[event.key]) return;
    event.preventDefault();
    shortcuts[event.key]();
  });
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    const factor = Math.exp(clamp(event.deltaY, -240, 240) * .0016);
    if (event.offsetX < NAMES) zoomRows(factor, event.offsetY); else zoom(factor, event.offsetX);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    drag = { x: event.offsetX, y: event.offsetY, moved: 0, measure: event.shiftKey, view: { ...view }, rows: { ...rows }, edge: edge(event.offsetX, event.offsetY) };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!drag) {
      const i = at(event.offsetY);
      return i < 0 ? note.hide() : note.show(event, short(i));
    }
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    drag.moved = Math.max(drag.moved, Math.abs(dx) + Math.abs(dy));
    note.hide();
    if (drag.moved < 4) return;
    if (drag.measure && order !== "percentile") { measured = [drag.edge, edge(event.offsetX, event.offsetY)]; return draw(); }
    const by = dx / plot * (drag.view.b - drag.view.a), down = order === "percentile" ? dy / room * (drag.rows.b - drag.rows.a) : dy / rowHeight();
    if (order !== "percentile") look(drag.view.a - by, drag.view.b - by);
    lookRows(drag.rows.a - down, drag.rows.b - down);
  });
  canvas.addEventListener("pointerup", event => {
    if (drag && drag.moved < 4) { measured = null; select(at(event.offsetY)); }
    else if (drag?.measure && measured) detail.textContent = `Measured ${time(Math.abs(measured[1].ns - measured[0].ns))}, from ${measured[0].name} to ${measured[1].name}.`;
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => drag = null);
  canvas.addEventListener("pointerleave", note.hide);
  const moveTo = event => {
    const middle = all0 + (event.offsetX - NAMES) / plot * (all1 - all0), half = (view.b - view.a) / 2;
    look(middle - half, middle + half);
  };
  strip.addEventListener("pointerdown", event => { strip.setPointerCapture(event.pointerId); if (axis !== "wall") set("wall", "start"); moveTo(event); });
  strip.addEventListener("pointermove", event => { if (event.buttons) moveTo(event); });

  // The table of the slowest calls leads here.
  all("#fig-rpc-calls details table tr").slice(1).forEach((row, at) => {
    element("button", { type: "button", textContent: "show", onclick() { go(info.slowest[at]); canvas.scrollIntoView({ block: "center" }); } }, row.cells[0]);
  });
  redraws.push(() => { prepare(); draw(); });
  box.classList.add("ready"); // from here on it has a size
  relist();
  everything();
  prepare();
  say();
  select(-1);
  paint();
  performance.mark("calls");
  // Shows the calls of a case (by its id) that lie in a cell of the heat map.
  return (id, range) => {
    const kind = info.kinds.findIndex(one => one.case === id);
    if (kind < 0) return;
    if (search.value) { search.value = ""; filter(); }
    set("wall", "start");
    const inside = i => log.case[i] === kind && !lost(i) && log.start[i] >= range.from && log.start[i] < range.to && log.latency[i] >= range.low && log.latency[i] < range.high;
    outlined = inside;
    look(range.from - (range.to - range.from) * .1, range.to + (range.to - range.from) * .1);
    select(-1);
    let many = 0;
    for (let i = 0; i < n; i++) if (inside(i)) many++;
    detail.textContent = `${many} of the ${range.count} calls of the cell are in this file: outlined.`;
    canvas.scrollIntoView({ block: "center" });
  };
}

const callsInfo = numbers("calls");
if (callsInfo) {
  const packed = find("#calls-log");
  unpackCalls(callsInfo, packed.textContent).then(log => {
    packed.textContent = "";
    showCell = calls(callsInfo, log);
  }).catch(error => {
    find("#calls-detail").textContent = `This browser cannot unpack the log of calls (${error.message}). The other figures do not need it.`;
  });
}
