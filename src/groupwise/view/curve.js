// Mean rewards over the steps, as a curve.

// parts: [{step, mean}] in order of the steps; points: whether each is marked.
function curveOf(parts, [width, height], points) {
  const known = parts.filter((part) => part.mean !== null);
  const margins = { left: 34, right: 8, top: 8, bottom: 16 };
  const steps = known.map((part) => part.step);
  const means = known.map((part) => part.mean);
  const [low, high] = [means.reduce((a, b) => Math.min(a, b), 0), means.reduce((a, b) => Math.max(a, b), 1)];
  const x = (step) => margins.left + ((width - margins.left - margins.right) * (step - steps[0])) / Math.max(1, steps.at(-1) - steps[0]);
  const y = (mean) => height - margins.bottom - ((height - margins.top - margins.bottom) * (mean - low)) / (high - low);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const add = (tag, attributes, text = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    svg.append(element);
  };
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img" })) svg.setAttribute(name, value);
  svg.setAttribute("aria-label", `Mean reward: ${shown(means[0])} at step ${steps[0]}, ${shown(means.at(-1))} at step ${steps.at(-1)}`);
  add("text", { x: 0, y: y(high) + 4 }, shown(high));
  add("text", { x: 0, y: y(low) + 4 }, shown(low));
  add("text", { x: margins.left, y: height - 2 }, `step ${steps[0]}`);
  if (steps.length > 1) add("text", { x: width - margins.right, y: height - 2, "text-anchor": "end" }, `step ${steps.at(-1)}`);
  add("polyline", { points: known.map((part) => `${x(part.step)},${y(part.mean)}`).join(" "), class: "curve-line" });
  for (const part of points || known.length === 1 ? known : []) add("circle", { cx: x(part.step), cy: y(part.mean), r: 3.5, class: "curve-point" });
  svg.dataset.left = margins.left / width;
  svg.dataset.right = (width - margins.right) / width;
  return svg;
}

// Of the rows that fit the filters.
const timeline = { parts: [] };

function drawTimeline(rows) {
  const sums = new Map();
  for (const row of rows) {
    if (data.total[row] === null) continue;
    const sum = sums.get(data.step[row]) ?? { total: 0, count: 0 };
    sum.total += data.total[row];
    sum.count += 1;
    sums.set(data.step[row], sum);
  }
  timeline.parts = [...sums].sort(([a], [b]) => a - b).map(([step, { total, count }]) => ({ step, mean: total / count }));
  byId("timeline").replaceChildren(...(timeline.parts.length > 1 ? [curveOf(timeline.parts, [400, 60], false)] : []));
}

// The step that was clicked on.
function stepAt(event) {
  const svg = event.target.closest("svg");
  if (svg === null || timeline.parts.length === 0) return undefined;
  const box = svg.getBoundingClientRect();
  const [left, right] = [Number(svg.dataset.left), Number(svg.dataset.right)];
  const share = Math.max(0, Math.min(1, ((event.clientX - box.left) / box.width - left) / (right - left)));
  const [first, last] = [timeline.parts[0].step, timeline.parts.at(-1).step];
  const wanted = first + share * (last - first);
  return timeline.parts.map((part) => part.step).reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
}
