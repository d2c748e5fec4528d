// Comfort only: the page is complete without it.
"use strict";
(() => {
  const ns = "http://www.w3.org/2000/svg";
  const tip = document.createElement("div");
  tip.className = "tip hidden";
  document.body.append(tip);

  const tools = document.createElement("div");
  tools.className = "tools";
  const theme = document.createElement("button");
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; name(); };
  name();
  tools.append(theme);
  document.body.append(tools);

  // Heads of columns become buttons that sort the rows, the better end first; what has no value stays last.
  const words = new Intl.Collator(undefined, { numeric: true });
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const key = (row, column) => {
      const { dataset, textContent } = row.cells[column];
      return dataset.value !== undefined ? Number(dataset.value) : textContent === "\u2013" ? null : textContent;
    };
    const compare = (one, other) =>
      typeof one === "number" && typeof other === "number" ? (one > other) - (one < other) : words.compare(one, other);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...head.childNodes);
      head.append(button);
      button.onclick = () => {
        const sorted = head.getAttribute("aria-sort");
        const falling = sorted ? sorted === "ascending" : head.dataset.better === "higher";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const keyed = [...body.rows].map(row => [key(row, column), row]);
        keyed.sort(([one], [other]) => one === null || other === null
          ? (one === null) - (other === null)
          : (falling ? -1 : 1) * compare(one, other));
        body.append(...keyed.map(([, row]) => row));
      };
    });
  }

  // "low high start end [log]" on both axes, back and forth.
  const scale = text => {
    const part = text.split(" ");
    const [low, high, start, end] = part.map(Number);
    const log = part[4] === "log";
    const share = at => (at - start) / (end - start);
    return { low, high, start, end, log,
      value: at => log ? low * (high / low) ** share(at) : low + (high - low) * share(at) };
  };
  const figure = value => {
    const size = Math.abs(value);
    const places = size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size > 0 ? Math.min(9, 2 - Math.floor(Math.log10(size))) : 0;
    return value.toFixed(places).replace("-", "\u2212");
  };

  // Paths hold pixels: what M, L, H and V of our own writing say.
  const points = path => {
    const found = [];
    let x = 0, y = 0;
    for (const [, command, rest] of path.getAttribute("d").matchAll(/([MLHV])([^MLHVZ]*)/g)) {
      const [a, b] = rest.split(" ").map(Number);
      if (command === "H") x = a; else if (command === "V") y = a; else { x = a; y = b; }
      found.push([x, y, command === "M"]);
    }
    return found;
  };
  const at = (list, x, step) => {
    let low = 0, high = list.length - 1;
    if (high < 0 || x < list[0][0] || x > list[high][0]) return null;
    while (high - low > 1) { const mid = (low + high) >> 1; if (list[mid][0] <= x) low = mid; else high = mid; }
    const [a, b] = [list[low], list[high]];
    if (x >= b[0]) return b[1];
    if (b[2]) return null;
    return step || b[0] === a[0] ? a[1] : a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]);
  };

  const step = (span, count) => {
    const raw = span / count, power = 10 ** Math.floor(Math.log10(raw)), digit = raw / power;
    return power * (digit <= 1.2 ? 1 : digit <= 2.8 ? 2 : digit <= 6.5 ? 5 : 10);
  };

  const all = [];
  for (const chart of document.querySelectorAll(".chart")) {
    const legend = chart.querySelector(".legend.hideable");
    for (const entry of legend ? legend.children : []) {
      entry.tabIndex = 0;
      entry.setAttribute("role", "button");
      entry.setAttribute("aria-pressed", "true");
      entry.title = "Show or hide";
      const toggle = () => {
        const shown = entry.getAttribute("aria-pressed") !== "true";
        entry.setAttribute("aria-pressed", String(shown));
        for (const part of chart.querySelectorAll("[data-name]"))
          if (part.dataset.name === entry.dataset.key) part.classList.toggle("hidden", !shown);
      };
      entry.onclick = toggle;
      entry.onkeydown = event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } };
    }
    for (const svg of chart.querySelectorAll("svg.lines, svg.lanes")) all.push(interactive(chart, svg));
  }

  function interactive(chart, svg) {
    const x = scale(svg.dataset.x), y = scale(svg.dataset.y);
    const zoomed = svg.querySelector(".zoom"), ticks = svg.querySelector(".xticks");
    const whole = ticks.innerHTML;
    const top = Math.min(y.start, y.end), bottom = Math.max(y.start, y.end);
    const view = { from: x.start, to: x.end };
    const cursor = document.createElementNS(ns, "path");
    cursor.setAttribute("class", "cursor hidden");
    const brush = document.createElementNS(ns, "rect");
    brush.setAttribute("class", "brush hidden");
    svg.append(cursor, brush);
    const series = [...svg.querySelectorAll(".line")].map(path => ({
      owner: path.closest("[data-name]"), list: null, path, step: path.classList.contains("step") }));
    const reset = document.createElement("button");
    reset.textContent = "Whole";
    reset.title = "Show the whole axis again";
    reset.className = "hidden";
    reset.onclick = () => zoom(svg, 0, 1);
    chart.append(reset);

    const unzoom = at => view.from + (at - x.start) / (x.end - x.start) * (view.to - view.from);
    const pixel = event => {
      const box = svg.getBoundingClientRect(), wide = svg.viewBox.baseVal.width;
      return Math.min(x.end, Math.max(x.start, (event.clientX - box.left) / box.width * wide));
    };
    let pressed = null;
    const leave = () => { tip.classList.add("hidden"); cursor.classList.add("hidden"); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointerdown", event => {
      if (event.pointerType === "mouse" && !x.log) { pressed = pixel(event); event.preventDefault(); svg.setPointerCapture(event.pointerId); }
    });
    svg.addEventListener("pointerup", event => {
      brush.classList.add("hidden");
      const released = pixel(event);
      if (pressed !== null && Math.abs(released - pressed) > 4) {
        const share = at => (unzoom(at) - x.start) / (x.end - x.start);
        zoom(svg, share(Math.min(pressed, released)), share(Math.max(pressed, released)));
      }
      pressed = null;
    });
    svg.addEventListener("dblclick", () => zoom(svg, 0, 1));
    svg.addEventListener("pointermove", event => {
      const here = pixel(event);
      if (pressed !== null) {
        brush.classList.remove("hidden");
        for (const [key, value] of [["x", Math.min(here, pressed)], ["y", top], ["width", Math.abs(here - pressed)], ["height", bottom - top]])
          brush.setAttribute(key, value);
      }
      if (!svg.classList.contains("lines")) return;
      const base = unzoom(here);
      const rows = [];
      for (const one of series) {
        if (one.owner.classList.contains("hidden")) continue;
        one.list ??= points(one.path);
        const found = at(one.list, base, one.step);
        if (found !== null) rows.push([one.owner, y.value(found)]);
      }
      cursor.setAttribute("d", `M${here} ${top}V${bottom}`);
      cursor.classList.remove("hidden");
      tip.replaceChildren(figure(x.value(base)));
      for (const [owner, value] of rows) {
        const line = document.createElement("div"), key = document.createElement("i");
        key.className = owner.getAttribute("class").split(" ").find(word => /^c\d$/.test(word)) ?? "";
        if (!key.className) key.style.background = "var(--limit)";
        line.append(key, `${owner.dataset.name} ${figure(value)}`);
        tip.append(line);
      }
      tip.classList.remove("hidden");
      const side = event.clientX > innerWidth / 2;
      tip.style.left = side ? "auto" : `${event.clientX + 14}px`;
      tip.style.right = side ? `${document.documentElement.clientWidth - event.clientX + 14}px` : "auto";
      tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)}px`;
    });

    const show = (from, to) => {
      const length = x.end - x.start;
      view.from = x.start + from * length;
      view.to = x.start + to * length;
      const factor = 1 / (to - from), full = from === 0 && to === 1;
      const move = at => x.start + (at - view.from) * factor;
      zoomed.setAttribute("transform", full ? "" : `matrix(${factor} 0 0 1 ${x.start - view.from * factor} 0)`);
      for (const text of zoomed.querySelectorAll("text")) text.classList.toggle("hidden", !full);
      for (const moment of svg.querySelectorAll(".moment")) {
        const old = Number(moment.dataset.at), now = move(old);
        moment.classList.toggle("hidden", now < x.start || now > x.end);
        moment.setAttribute("transform", `translate(${now - old} 0)`);
      }
      reset.classList.toggle("hidden", full);
      if (full) { ticks.innerHTML = whole; return; }
      ticks.replaceChildren();
      const low = x.value(view.from), high = x.value(view.to);
      const size = step(high - low, 6), places = Math.max(0, Math.min(9, -Math.floor(Math.log10(size) + 1e-9)));
      for (let index = Math.ceil(low / size); index <= high / size; index += 1) {
        const place = x.start + (index * size - low) / (high - low) * length;
        const line = document.createElementNS(ns, "path"), text = document.createElementNS(ns, "text");
        line.setAttribute("class", "tick");
        line.setAttribute("d", `M${place} ${bottom}V${bottom + 4}`);
        text.setAttribute("class", "num mid");
        text.setAttribute("x", place);
        text.setAttribute("y", bottom + 16);
        text.textContent = (index * size).toFixed(places).replace("-", "\u2212");
        ticks.append(line, text);
      }
    };
    return { chart, svg, show };
  }

  // A chart zooms in both its widths, and with every chart linked to it.
  function zoom(svg, from, to) {
    const owner = svg.closest(".chart"), linked = svg.dataset.linked;
    for (const one of all)
      if (one.chart === owner || (linked && one.svg.dataset.linked === linked)) one.show(from, to);
  }
})();
