// The log of the page as columns; the format is that of html/embed/pack.rs.
async function inflate(text) {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let i = 0; i < packed.length; i++) packed[i] = letters.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
async function unpack(info, text) {
  const bytes = await inflate(text);
  const n = info.cases.reduce((sum, one) => sum + one.kept, 0);
  let at = 0;
  const column = () => {
    const values = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      let value = 0, unit = 1, byte;
      do { byte = bytes[at++]; value += (byte & 127) * unit; unit *= 128; } while (byte > 127);
      values[i] = value;
    }
    return values;
  };
  return { start: column(), connection: column(), kind: column(), stages: info.stages.map(column) };
}

// What drawing needs to know of one case whose messages are from..from+kept in the log.
function index(log, from, one) {
  const n = one.kept, part = column => column.subarray(from, from + n);
  const start = part(log.start), kind = part(log.kind), connection = part(log.connection), stages = log.stages.map(part);
  for (let i = 1; i < n; i++) start[i] += start[i - 1];
  const total = new Float64Array(n), end = new Float64Array(n), blame = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < stages.length; k++) {
      total[i] += stages[k][i];
      if (stages[k][i] > stages[blame[i]][i]) blame[i] = k;
    }
    end[i] = start[i] + total[i] * one.batch;
  }
  // Lanes, and in each a row for every message in flight.
  const lanes = Array.from({ length: Math.min(one.connections, 48) }, () => ({ list: [], ends: [], reach: null, rows: 1 }));
  const slot = new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    const lane = lanes[Math.floor(connection[i] * lanes.length / one.connections)];
    const free = lane.ends.findIndex(until => until <= start[i]);
    slot[i] = free >= 0 ? free : Math.min(lane.ends.length, SLOTS - 1);
    lane.ends[slot[i]] = Math.max(lane.ends[slot[i]] ?? 0, end[i]);
    lane.list.push(i);
  }
  for (const lane of lanes) {
    lane.reach = new Float64Array(lane.list.length); // latest end so far: rises, so it can be searched
    lane.list.forEach((i, j) => lane.reach[j] = Math.max(end[i], j ? lane.reach[j - 1] : 0));
  }
  // By time, lost ones last; a sampled message counts for those that were left out.
  const key = Float64Array.from(total, (ns, i) => kind[i] & LOST ? Infinity : ns);
  const order = new Uint32Array(n).map((_, i) => i).sort((a, b) => key[a] - key[b] || a - b), rank = new Uint32Array(n);
  const before = new Float64Array(n + 1), sums = stages.map(() => new Float64Array(n + 1));
  order.forEach((i, j) => {
    const weight = kind[i] & SAMPLED ? one.weight : 1;
    rank[i] = j;
    before[j + 1] = before[j] + weight;
    stages.forEach((stage, k) => sums[k][j + 1] = sums[k][j] + (kind[i] & LOST ? 0 : stage[i] * weight));
  });
  const arrived = first(n, j => key[order[j]] === Infinity);
  const median = key[order[first(n, j => before[j + 1] >= before[n] / 2)]];
  const base = (isFinite(median) ? median : 1e3) / 1.6, top = arrived ? key[order[arrived - 1]] : base * 1.6;
  const height = ns => clamp(Math.log(ns / base) / Math.log(top / base) || 0, .08, 1);
  return { ...one, n, start, end, kind, connection, stages, total, blame, lanes, slot, order, rank, before, sums,
    arrived, height, from: start[0], to: end.reduce((a, b) => Math.max(a, b), start[n - 1] + 1) };
}

