// Intervals as charts: lines by uPlot, a heat map on a canvas, and a table for whoever reads instead of looking.
'use strict';
const Charts = (() => {
  const ROWS_MAX = 300;
  const SHARES = 6;
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Parts of an interval that came late are added to it; percentiles and extremes are the worst.
  function merged(moments) {
    const found = new Map();
    for (const one of moments) {
      const key = `${one.phase}/${one.start_ns}`;
      const known = found.get(key);
      if (!known) { found.set(key, { ...one, heat: spread(one) }); continue; }
      for (const name of ['requests', 'reads', 'names', 'bytes', 'errors', 'response_count', 'response_sum_ns', 'cpu_ns'])
        known[name] = known[name] === null ? one[name] : known[name] + one[name]; // null: not known
      for (const name of ['depth', 'response_p99_ns', 'response_max_ns', 'late_p99_ns', 'late_max_ns', 'loop_busy_share'])
        known[name] = Math.max(known[name], one[name]);
      known.end_ns = Math.max(known.end_ns, one.end_ns);
      spread(one).forEach((count, bin) => { known.heat[bin] = (known.heat[bin] || 0) + (count || 0); });
    }
    return [...found.values()].sort((a, b) => a.start_ns - b.start_ns);
  }

  function spread(one) {
    const heat = [];
    one.heat.forEach((count, place) => { heat[one.heat_from + place] = count; });
    return heat;
  }

  // A drain has latencies and no rate; an interval without a length has neither.
  function rated(points) { return points.filter(p => !p.drain && p.end_ns > p.start_ns); }
  const seconds = p => (p.end_ns - p.start_ns) / 1e9;
  const mib = p => p.bytes === null ? null : p.bytes / seconds(p) / 1048576;
  const mean = p => p.response_count ? p.response_sum_ns / p.response_count : null;

  function series(points) {
    const kept = rated(points);
    const first = kept.length ? kept[0].start_ns : 0;
    const x = kept.map(p => (p.end_ns - first) / 1e9);
    const ms = ns => ns ? ns / 1e6 : null;
    return {
      first,
      rate: [x, kept.map(p => p.requests / seconds(p)), kept.map(p => p.reads / seconds(p)),
        kept.map(p => p.errors / seconds(p))],
      bytes: [x, kept.map(mib)],
      times: [x, kept.map(p => ms(mean(p))), kept.map(p => ms(p.response_p99_ns)), kept.map(p => ms(p.response_max_ns))],
      depth: [x, kept.map(p => p.depth)],
    };
  }

  // Reads are a line of their own where there is something else; errors where there are any.
  function sparing([x, all, reads, errors]) {
    const empty = line => line.map(() => null);
    const isMixed = reads.some((count, place) => count && count !== all[place]);
    return [x, all, isMixed ? reads : empty(reads), errors.some(Boolean) ? errors : empty(errors)];
  }

  const KINDS = {
    rate: [['all', '--line1'], ['reads', '--line2', [6, 3]], ['errors', '--line4', [2, 3]]],
    bytes: [['MiB/s', '--line1']],
    times: [['mean', '--line1'], ['p99', '--line2', [6, 3]], ['longest', '--line4', [2, 3]]],
    depth: [['in flight', '--line3']],
  };

  // Of the labels of an axis, in pixels.
  const room = (plot, values) => Math.max(58, 18 + 7.5 * Math.max(0, ...(values || []).map(text => text.length)));

  function options(kind, width) {
    const grid = { stroke: colour('--line'), width: 1 }, ink = colour('--pale');
    const isLog = kind === 'times';
    const axis = { stroke: ink, grid, ticks: grid, font: '12px system-ui, sans-serif' };
    const labels = (plot, values) => values.map(v => v === null ? '' : Brickyard.digits(v));
    return {
      width, height: Math.max(150, Math.min(260, width * 0.42)),
      legend: { live: true }, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: (plot, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, size: 34, values: (plot, values) => values.map(v => `${v} s`) }, { ...axis, size: room, values: labels }],
      series: [{ label: 's' }, ...KINDS[kind].map(([label, name, dash]) => ({
        label, stroke: colour(name), width: 1.6, dash, points: { show: false }, spanGaps: false,
        value: (plot, value) => value === null ? '–' : Brickyard.digits(value),
      }))],
    };
  }

  // One line over the time of day.
  function simple(width, label, name) {
    const grid = { stroke: colour('--line'), width: 1 };
    const axis = { stroke: colour('--pale'), grid, ticks: grid, font: '12px system-ui, sans-serif' };
    return {
      width, height: Math.max(150, Math.min(220, width * 0.42)), cursor: { drag: { x: true, y: false } },
      scales: { y: { range: (plot, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, size: 34, space: 80, values: (plot, values) => values.map(v => new Date(v * 1000).toLocaleTimeString('en-GB')) },
        { ...axis, size: room, values: (plot, values) => values.map(v => v === null ? '' : Brickyard.digits(v)) }],
      series: [{ label: 'time', value: (plot, at) => at ? new Date(at * 1000).toLocaleTimeString('en-GB') : '–' }, { label, stroke: colour(name), width: 1.6, points: { show: false },
        value: (plot, value) => value === null ? '–' : Brickyard.digits(value) }],
    };
  }

  // The next of 1, 2, 5, 10 …
  function round(value) {
    const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
    return power * [1, 2, 5, 10].find(times => times * power >= value * 0.999);
  }

  class Board {
    constructor(root) {
      this.root = root;
      this.moments = [];
      this.plots = new Map();
      this.observer = new ResizeObserver(() => this.fit());
      this.observer.observe(root);
      this.redress = () => { this.remove(); this.draw(); };
      document.addEventListener('theme', this.redress);
      const media = matchMedia('(prefers-color-scheme: dark)');
      media.addEventListener('change', this.redress);
      matchMedia('print').addEventListener('change', this.redress);
      this.table = root.querySelector('table.intervals tbody');
      const details = this.table && this.table.closest('details');
      if (details) details.addEventListener('toggle', () => this.tabulate());
    }

    reset(moments) { this.moments = [...moments]; this.draw(); }

    add(moments) {
      const last = this.moments.length ? this.moments[this.moments.length - 1].number : -1;
      const fresh = moments.filter(one => one.number > last);
      if (!fresh.length) return;
      this.moments.push(...fresh);
      if (this.moments.length > 3600) this.moments.splice(0, this.moments.length - 3600);
      this.draw();
    }

    draw() {
      this.points = merged(this.moments);
      const drawn = series(this.points);
      for (const kind of Object.keys(KINDS)) {
        const place = this.root.querySelector(`.chart.${kind}`);
        if (!place) continue;
        if (kind === 'bytes') // of transactions it is not known what they move
          place.closest('figure').hidden = drawn.bytes[1].length > 0 && drawn.bytes[1].every(value => value === null);
        const data = kind === 'rate' ? sparing(drawn.rate) : drawn[kind];
        const plot = this.plots.get(kind);
        if (plot) plot.setData(data, !plot.zoomed);
        else if (place.clientWidth) {
          const made = new uPlot(options(kind, place.clientWidth), data, place);
          made.over.addEventListener('mouseup', () => { made.zoomed = made.select.width > 0; });
          made.over.addEventListener('dblclick', () => { made.zoomed = false; });
          this.plots.set(kind, made);
        }
      }
      this.heat();
      this.tabulate();
    }

    fit() {
      for (const [kind, plot] of this.plots) {
        const width = this.root.querySelector(`.chart.${kind}`).clientWidth;
        if (width && Math.abs(width - plot.width) > 1) {
          const { height } = options(kind, width);
          plot.setSize({ width, height });
        }
      }
      if (!this.plots.size && this.moments.length) this.draw();
      this.heat();
    }

    remove() {
      for (const plot of this.plots.values()) plot.destroy();
      this.plots.clear();
    }

    end() {
      this.observer.disconnect();
      document.removeEventListener('theme', this.redress);
      this.remove();
    }

    heat() {
      const canvas = this.root.querySelector('canvas.heat');
      if (!canvas || !canvas.clientWidth) return;
      const ratio = window.devicePixelRatio || 1;
      const width = canvas.clientWidth, height = 200, left = 58, bottom = 22;
      canvas.width = width * ratio; canvas.height = height * ratio;
      const pen = canvas.getContext('2d');
      pen.scale(ratio, ratio);
      pen.clearRect(0, 0, width, height);
      const points = rated(this.points || []).filter(p => p.heat.some(Boolean));
      if (!points.length) return;
      let low = Infinity, high = -Infinity;
      for (const p of points) p.heat.forEach((count, bin) => {
        if (count) { low = Math.min(low, bin); high = Math.max(high, bin); }
      });
      const first = points[0].start_ns, last = points[points.length - 1].end_ns;
      const across = (width - left) / Math.max(last - first, 1), up = (height - bottom) / (high - low + 1);
      const ground = colour('--line1');
      for (const p of points) {
        const all = p.heat.reduce((sum, count) => sum + (count || 0), 0);
        p.heat.forEach((count, bin) => {
          if (!count) return;
          // A rare slow request must be seen beside many: the shade is of the logarithm of its share.
          pen.globalAlpha = Math.max(0.08, 1 + Math.log10(count / all) / SHARES);
          pen.fillStyle = ground;
          const x = left + (p.start_ns - first) * across;
          pen.fillRect(x, height - bottom - (bin - low + 1) * up, Math.max(1, (p.end_ns - p.start_ns) * across + 0.5), up + 0.5);
        });
      }
      pen.globalAlpha = 1;
      pen.fillStyle = colour('--pale');
      pen.font = '12px system-ui, sans-serif';
      pen.textBaseline = 'middle';
      pen.textAlign = 'right';
      const every = Math.ceil((high - low + 1) / Math.max(1, Math.floor((height - bottom) / 22)));
      for (let bin = low; bin <= high; bin += every)
        pen.fillText(Brickyard.time(edge(bin)), left - 6, height - bottom - (bin - low) * up - Math.min(8, up / 2));
      pen.textAlign = 'center';
      const span = (last - first) / 1e9, step = round(span / Math.max(1, Math.floor((width - left) / 90)));
      for (let at = 0; at <= span; at += step)
        pen.fillText(`${Brickyard.digits(at)} s`, Math.min(width - 20, left + at * 1e9 * across), height - 9);
    }

    tabulate() {
      if (!this.table || !this.table.closest('details').open) return;
      const points = rated(this.points || []);
      const first = points.length ? points[0].start_ns : 0;
      const rows = points.slice(-ROWS_MAX).reverse().map(p => {
        const cells = [Brickyard.digits((p.end_ns - first) / 1e9), Brickyard.digits(p.requests / seconds(p)),
          p.bytes === null ? '–' : Brickyard.digits(mib(p)), Brickyard.time(mean(p)), Brickyard.time(p.response_p99_ns),
          Brickyard.time(p.response_max_ns), Brickyard.time(p.late_p99_ns), String(p.depth), p.errors === null ? '–' : String(p.errors)];
        return Brickyard.make('tr', {}, ...cells.map(text => Brickyard.make('td', {}, text)));
      });
      this.table.replaceChildren(...rows);
    }
  }

  // The edges of the server's bins: below 1 µs, then four a decade.
  function edge(bin) { return bin === 0 ? 1 : Math.round(10 ** (3 + (bin - 1) / 4)); }

  return { Board, merged, rated, mean, mib, seconds, simple };
})();
