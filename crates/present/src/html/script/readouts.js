// ---- read-outs of the pictures that Rust has drawn; their geometry stands in `data-geo`, in units of the drawing
const svgPlace = (svg, event) => {
  const geo = JSON.parse(svg.dataset.geo), frame = svg.getBoundingClientRect(), scale = geo.w / frame.width;
  const x = (event.clientX - frame.left) * scale, y = (event.clientY - frame.top) * scale;
  const inside = x >= geo.left && x < geo.right && y >= geo.top && y < geo.bottom;
  return { geo, x, y, inside };
};

// The percentile spectrum: a vertical line with the value and interval of every series.
function spectrum(data) {
  const svg = find("#fig-spectrum svg"), note = tip(svg.parentNode);
  const line = svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
  line.setAttribute("class", "axis");
  const hide = () => { note.hide(); line.style.display = "none"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const { geo, x, inside } = svgPlace(svg, event);
    if (!inside) return hide();
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: geo.top, y2: geo.bottom })) line.setAttribute(name, value);
    line.style.display = "";
    const u = (x - geo.left) / (geo.right - geo.left) * geo.end;
    const lines = data.names.map((name, k) => {
      const places = data.s[k], at = first(places.length, j => places[j][0] >= u);
      if (at === places.length) return name + ": fewer messages than that";
      const [, value, low, high] = places[at];
      return `${name}: ${value === null ? "lost" : time(value)}` + (low === null && high === null ? ""
        : ` (${low === null ? "…" : time(low)} – ${high === null ? "…" : time(high)})`);
    });
    note.show(event, [`p${(100 * (1 - 10 ** -u)).toFixed(Math.max(0, Math.ceil(u - 1)))}`, ...lines].join("\n"));
  });
}

// The heat maps: time, latency and count of a cell. A click leads to its messages.
function heat(data) {
  all("#fig-heat svg").forEach((svg, at) => {
    const map = data.maps[at], note = tip(svg.parentNode);
    const cellAt = event => {
      const { geo, x, y, inside } = svgPlace(svg, event);
      if (!inside) return null;
      const column = map.columns[Math.floor((x - geo.left) / (geo.right - geo.left) * map.columns.length)];
      const row = clamp(Math.floor((geo.bottom - y) / (geo.bottom - geo.top) * map.rows), 0, map.rows - 1);
      const edge = row => map.low * (map.high / map.low) ** (row / map.rows);
      return { from: column.from, to: column.to, low: edge(row), high: edge(row + 1), count: column.counts[row - column.first] ?? 0 };
    };
    const seconds = ns => (ns / 1e9).toFixed(3);
    svg.addEventListener("pointerleave", note.hide);
    svg.addEventListener("pointermove", event => {
      const cell = cellAt(event);
      if (!cell) return note.hide();
      note.show(event, `${seconds(cell.from)} – ${seconds(cell.to)} s\n${time(cell.low)} – ${time(cell.high)}\n${count(cell.count)} message${cell.count === 1 ? "" : "s"}`);
    });
    svg.addEventListener("click", event => {
      const cell = cellAt(event);
      if (cell?.count) showCell(map.case, cell);
    });
  });
}
