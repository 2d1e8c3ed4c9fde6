// ---- what the page has is brought to life
let showCell = () => {}; // shows the messages of a cell of the heat map, once there is a timeline
const data = { spectrum: numbers("spectrum"), heat: numbers("heat"), timeline: numbers("timeline"), calls: numbers("calls") };
if (data.spectrum) spectrum(data.spectrum);
if (data.heat) heat(data.heat);
if (data.timeline) {
  const packed = find("#log");
  unpack(data.timeline, packed.textContent).then(log => {
    packed.textContent = "";
    showCell = timeline(data.timeline, log);
  }).catch(error => {
    find("#tl-detail").textContent = `This browser cannot unpack the message log (${error.message}). The other figures do not need it.`;
  });
}
if (data.calls) {
  const packed = find("#calls-log");
  unpackCalls(data.calls, packed.textContent).then(log => {
    packed.textContent = "";
    showCell = calls(data.calls, log);
  }).catch(error => {
    find("#calls-detail").textContent = `This browser cannot unpack the log of calls (${error.message}). The other figures do not need it.`;
  });
}
