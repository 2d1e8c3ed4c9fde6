// ---- what the page has is brought to life
let showCell = () => {}; // shows the messages of a cell of the heat map, once there is a timeline
const data = { spectrum: numbers("spectrum"), heat: numbers("heat"), timeline: numbers("timeline") };
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
