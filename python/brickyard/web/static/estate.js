// Arrays: progress as it goes on, actions after a typed confirmation, alarms that somebody has seen.
'use strict';
(() => {
  const { ask, say, span, make, digits, time } = Brickyard;
  const head = document.getElementById('array');

  for (const form of document.querySelectorAll('form.deed')) form.addEventListener('submit', async event => {
    event.preventDefault();
    const given = new FormData(form);
    const body = { action: form.dataset.action, array: head ? head.dataset.array : String(given.get('array') || '') };
    for (const name of ['confirm', 'device', 'other', 'level', 'rate', 'days', 'window']) if (given.has(name)) body[name] = given.get(name);
    if (given.has('names')) body.names = given.getAll('names');
    body.destroys_data = given.has('destroys_data');
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      say((await ask('/api/arrays/do', body)).done);
      if (form.elements.confirm) form.elements.confirm.value = '';
      setTimeout(() => location.reload(), 1500);
    } catch (error) { say(error.message, true); }
    button.disabled = false;
  });

  for (const button of document.querySelectorAll('button.acknowledge')) button.addEventListener('click', async () => {
    try { await ask('/api/alarms/acknowledge', { key: button.dataset.key }); location.reload(); }
    catch (error) { say(error.message, true); }
  });

  async function progress() {
    if (document.hidden) return;
    let told;
    try { told = await ask(`/api/arrays/${head.dataset.array}`); } catch (error) { say(error.message, true); return; }
    const words = [told.state, told.progress_share === null ? '' : `${(told.progress_share * 100).toFixed(1)} % done`,
      told.rate_bytes_per_s ? `${(told.rate_bytes_per_s / 1048576).toFixed(1)} MiB/s` : '',
      told.left_s === null ? '' : `${span(told.left_s)} left, until ${new Date(Date.now() + told.left_s * 1000).toLocaleTimeString()}`];
    const place = document.getElementById('work'), text = words.filter(Boolean).join(', ');
    if (place.textContent !== text) place.textContent = text;
    const bar = document.getElementById('work-share');
    bar.hidden = told.progress_share === null;
    if (told.progress_share !== null) bar.value = told.progress_share;
  }

  // The pace of a rebuild or scrub beside what users get meanwhile.
  const plots = new Map();
  function chart(name, data, label, colour) {
    const place = document.querySelector(`#pace .chart.${name}`), known = plots.get(name);
    if (known) known.setData(data);
    else if (place.clientWidth) plots.set(name, new uPlot(Charts.simple(place.clientWidth, label, colour), data, place));
  }

  async function pace() {
    if (document.hidden) return;
    let told;
    try { told = await ask(`/api/arrays/${head.dataset.array}/pace`); } catch (error) { return; }
    const { samples } = told, worked = samples.some(one => one.work_bytes_per_s);
    document.getElementById('pace').hidden = !worked;
    if (!worked) return;
    const x = samples.map(one => one.unix_s), mib = one => one.work_bytes_per_s === null ? null : one.work_bytes_per_s / 1048576;
    chart('work', [x, samples.map(mib)], 'MiB/s', '--line1');
    chart('users', [x, samples.map(one => one.service_ns === null ? null : one.service_ns / 1e6)], 'ms', '--line2');
    chart('requests', [x, samples.map(one => one.requests_per_s)], 'requests/s', '--line3');
    const rows = samples.slice(-100).reverse().map(one => make('tr', {},
      make('td', { class: 'text' }, new Date(one.unix_s * 1000).toLocaleTimeString()), make('td', { class: 'text' }, one.state),
      make('td', {}, mib(one) === null ? '–' : digits(mib(one))), make('td', {}, time(one.service_ns)), make('td', {}, digits(one.requests_per_s))));
    document.querySelector('#paces tbody').replaceChildren(...rows);
  }
  function redraw() { for (const plot of plots.values()) plot.destroy(); plots.clear(); pace(); }
  if (head) {
    addEventListener('resize', redraw);
    document.addEventListener('theme', redraw);
    setInterval(progress, 3000);
    setInterval(pace, 3000);
    pace();
  }

  const test = document.getElementById('test-alarm'), tested = document.getElementById('tested');
  if (test) test.addEventListener('click', async () => {
    test.disabled = true;
    try {
      const asked = await ask('/api/alarms/test', {});
      tested.textContent = 'Asked for; the watch sends it at its next look.';
      for (let tries = 0; tries < 100; tries += 1) {
        await new Promise(done => setTimeout(done, 3000));
        const told = (await ask('/api/alarms')).test;
        if (!told || told.asked_s !== asked.asked_s || !told.done_s) continue;
        tested.replaceChildren(make('p', {}, 'The watch says:'), make('ul', {}, ...told.lines.map(line => make('li', {}, line))));
        break;
      }
    } catch (error) { say(error.message, true); }
    test.disabled = false;
  });
})();
