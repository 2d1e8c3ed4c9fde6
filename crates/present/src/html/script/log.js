// The log of the page as columns; the format is that of html/embed/pack.rs.
// Loops over all messages are plain ones: with a call for each message they were most of the time until the page could be used.
async function inflate(text) {
  const stream = new Blob([unbase64(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
function unbase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
// Reads a column of unsigned LEB128 varints that begins at `at` into `values`; where it ends.
function varints(bytes, at, values) {
  for (let i = 0; i < values.length; i++) {
    let byte = bytes[at++], value = byte & 127;
    for (let unit = 128; byte > 127; unit *= 128) { byte = bytes[at++]; value += (byte & 127) * unit; }
    values[i] = value;
  }
  return at;
}
async function unpack(info, text) {
  const bytes = await inflate(text);
  const n = info.cases.reduce((sum, one) => sum + one.kept, 0);
  let at = 0;
  const column = values => { at = varints(bytes, at, values); return values; };
  return { start: column(new Float64Array(n)), connection: column(new Uint32Array(n)), kind: column(new Uint8Array(n)),
    stages: info.stages.map(() => column(new Float64Array(n))) };
}

// Positions in the order of their values, whole numbers up to `most`; equal ones as they come: a radix sort, 11 bits at a time.
function ordered(values, most) {
  const n = values.length, places = new Uint32Array(2049);
  let order = new Uint32Array(n), next = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  for (let unit = 1; unit <= most; unit *= 2048) {
    places.fill(0);
    for (let i = 0; i < n; i++) places[(values[i] / unit & 2047) + 1]++;
    for (let digit = 1; digit < 2048; digit++) places[digit] += places[digit - 1];
    for (let j = 0; j < n; j++) next[places[values[order[j]] / unit & 2047]++] = order[j];
    [order, next] = [next, order];
  }
  return order;
}

// What drawing needs to know of one case whose messages are from..from+kept in the log.
function index(log, from, one) {
  const n = one.kept, part = column => column.subarray(from, from + n);
  const start = part(log.start), kind = part(log.kind), connection = part(log.connection), stages = log.stages.map(part);
  for (let i = 1; i < n; i++) start[i] += start[i - 1];
  const total = new Float64Array(n), end = new Float64Array(n), blame = new Uint8Array(n);
  stages.forEach((stage, k) => {
    for (let i = 0; i < n; i++) {
      total[i] += stage[i];
      if (stage[i] > stages[blame[i]][i]) blame[i] = k;
    }
  });
  let slowest = 0, to = start[n - 1] + 1;
  for (let i = 0; i < n; i++) {
    end[i] = start[i] + total[i] * one.batch;
    slowest = Math.max(slowest, total[i]);
    to = Math.max(to, end[i]);
  }
  const [lanes, slot] = inLanes(one, start, end, connection);
  // By time, lost ones last; a sampled message counts for those that were left out.
  const key = total.slice();
  let arrived = n;
  for (let i = 0; i < n; i++) if (kind[i] & LOST) { key[i] = slowest + 1; arrived--; }
  const order = ordered(key, slowest + 1), rank = new Uint32Array(n), before = new Float64Array(n + 1);
  for (let j = 0; j < n; j++) {
    rank[order[j]] = j;
    before[j + 1] = before[j] + (kind[order[j]] & SAMPLED ? one.weight : 1);
  }
  const sums = stages.map(stage => {
    const sum = new Float64Array(n + 1);
    for (let j = 0; j < n; j++) sum[j + 1] = sum[j] + (j < arrived ? stage[order[j]] * (before[j + 1] - before[j]) : 0);
    return sum;
  });
  const median = first(n, j => before[j + 1] >= before[n] / 2);
  const base = (median < arrived ? total[order[median]] : 1e3) / 1.6, top = arrived ? total[order[arrived - 1]] : base * 1.6;
  const height = ns => clamp(Math.log(ns / base) / Math.log(top / base) || 0, .08, 1);
  return { ...one, n, start, end, kind, connection, stages, total, blame, lanes, slot, order, rank, before, sums,
    arrived, height, from: start[0], to };
}

// The messages of each lane, and in each lane the row of every message in flight.
function inLanes(one, start, end, connection) {
  const n = start.length, count = Math.min(one.connections, 48), of = new Uint8Array(n), sizes = new Uint32Array(count);
  for (let i = 0; i < n; i++) sizes[of[i] = Math.floor(connection[i] * count / one.connections)]++;
  // `reach`: the latest end so far, which rises, so it can be searched.
  const lanes = Array.from(sizes, size => ({ list: new Uint32Array(size), reach: new Float64Array(size), rows: 1 }));
  const slot = new Uint8Array(n), taken = new Uint32Array(count), ends = new Float64Array(count * SLOTS);
  for (let i = 0; i < n; i++) {
    const lane = lanes[of[i]], j = taken[of[i]]++, row = of[i] * SLOTS;
    let free = 0;
    while (free < SLOTS - 1 && ends[row + free] > start[i]) free++;
    slot[i] = free;
    ends[row + free] = Math.max(ends[row + free], end[i]);
    lane.list[j] = i;
    lane.reach[j] = Math.max(end[i], j ? lane.reach[j - 1] : 0);
  }
  return [lanes, slot];
}
