// Runs as they go on, and the form that starts them.
'use strict';
(() => {
  const { ask, say, make, digits, time, span, showError, showStanding } = Brickyard;
  const runs = new Map();
  const root = document.getElementById('runs');
  const link = document.getElementById('link');

  // The six bars of Iometer, and how late requests were sent.
  const BARS = [
    ['requests/s', p => p.requests / Charts.seconds(p), digits],
    ['MiB/s', p => Charts.mib(p), digits],
    ['mean response', p => Charts.mean(p), time],
    ['longest response', p => p.response_max_ns || null, time],
    ['processor', p => p.cpu_ns / (p.end_ns - p.start_ns) * 100, v => `${digits(v)} %`],
    ['errors', p => p.errors, v => String(v)],
    ['late (p99)', p => p.late_p99_ns, time],
  ];

  // The same of a run that has ended, as its tables have them.
  const WHOLE = [w => w.per_s, w => w.mib_per_s, w => w.response_mean_ns, w => w.response_max_ns,
    w => w.cpu_share === null ? null : w.cpu_share * 100, w => w.errors, w => w.late_p99_ns];

  const KINDS = { 'web-log': 'replay' };

  function shown(state) {
    let one = runs.get(state.run);
    if (one) return one;
    const made = document.getElementById('run-template').content.firstElementChild.cloneNode(true);
    made.dataset.run = state.run;
    const bars = made.querySelector('.bars');
    for (const [name] of BARS) {
      const bar = make('div', { class: 'bar' }, make('span', { class: 'name' }, name), make('span', { class: 'value' }, '–'),
        make('meter', { min: '0', max: '1', value: '0', 'aria-label': name }));
      bars.append(bar);
    }
    root.prepend(made);
    one = { made, board: new Charts.Board(made), most: BARS.map(() => 0), notes: 0, state };
    runs.set(state.run, one);
    return one;
  }

  function update(news, isWhole) {
    const one = shown(news.state), { state } = news;
    one.state = state; one.at = performance.now();
    const head = one.made.querySelector('.run-link');
    head.href = `/results/${state.run}`;
    head.textContent = `Run ${state.run}: ${state.title}`;
    const outcome = one.made.querySelector('.outcome');
    if (outcome.textContent !== state.outcome) {
      outcome.textContent = state.outcome; outcome.className = `outcome ${state.outcome}`;
      if (!isWhole && state.outcome !== 'running') say(`Run ${state.run}: ${state.outcome}`);
    }
    one.made.querySelector('.run-about').textContent = [state.targets.join(', '), state.condition,
      state.phase && `phase ${state.phase}`, state.array && `array ${state.array}`, state.message].filter(Boolean).join(' · ');
    const notes = one.made.querySelector('.notes');
    const all = [...state.notes, ...state.warnings];
    if (all.length !== one.notes) {
      one.notes = all.length;
      notes.replaceChildren(...all.map(text => make('li', {}, text)));
    }
    if (isWhole) one.board.reset(news.moments); else one.board.add(news.moments);
    const points = Charts.rated(one.board.points || []);
    const last = points[points.length - 1], { whole } = state;
    if (last) one.made.querySelector('.bars-of').textContent = whole ? `Figures of the ${whole.of}`
      : `Figures of the interval that ended ${digits((last.end_ns - points[0].start_ns) / 1e9)} s after the first began`;
    if (last) BARS.forEach(([, value, words], place) => {
      const now = whole ? WHOLE[place](whole) : value(last);
      one.most[place] = Math.max(one.most[place], now || 0);
      const bar = one.made.querySelectorAll('.bar')[place];
      bar.querySelector('.value').textContent = now === null ? '–' : words(now);
      bar.querySelector('meter').value = one.most[place] ? (now || 0) / one.most[place] : 0;
    });
    progress(one);
  }

  function progress(one) {
    const { state } = one, bar = one.made.querySelector('progress'), left = one.made.querySelector('.left');
    if (state.outcome !== 'running') { one.made.querySelector('.progress').hidden = true; return; }
    if (state.done_share === null) { bar.removeAttribute('value'); left.textContent = 'ends by itself'; return; }
    const gone = (performance.now() - one.at) / 1000;
    let done = state.done_share;
    if (state.left_s !== null && state.planned_ns) {
      const leftNow = Math.max(0, state.left_s - gone);
      done = Math.min(1, Math.max(done, 1 - leftNow * 1e9 / state.planned_ns));
      left.textContent = `${span(leftNow)} left`;
    } else left.textContent = state.virtual ? 'in virtual time' : '';
    bar.value = done;
  }
  setInterval(() => runs.forEach(progress), 1000);

  function forget(run) {
    const one = runs.get(run);
    if (!one) return;
    one.board.end(); one.made.remove(); runs.delete(run);
  }

  function some() { document.getElementById('none').hidden = runs.size > 0; }

  function showJobs(jobs) {
    const body = document.querySelector('#jobs tbody');
    const had = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset : {};
    const rows = jobs.map(job => {
      const isOn = job.outcome === 'running' || job.outcome === 'starting';
      const state = make('td', { class: 'text' }, make('span', { class: `outcome ${job.outcome}` }, job.outcome));
      if (isOn && document.getElementById('start')) {
        const button = make('button', { type: 'button', class: 'danger stop', 'data-job': job.name,
          'aria-label': `Stop ${job.what || job.kind}` }, 'Stop');
        button.addEventListener('click', async () => {
          if (button.getAttribute('aria-disabled')) return;
          button.setAttribute('aria-disabled', 'true'); // a disabled button would lose the focus
          try { await ask(`/api/jobs/${job.name}/stop`, {}); say('Stopping; what was measured is kept.'); }
          catch (error) { say(error.message, true); }
        });
        state.append(' ', button);
      }
      const links = make('span', {}, ...job.runs.slice(0, 20).flatMap(run => [make('a', { href: `/results/${run}` }, `run ${run}`), ' ']));
      const said = make('td', { class: 'text' }, [...job.notes.slice(-2), job.message].filter(Boolean).join('; '), ' ', links);
      return make('tr', { 'data-of': job.name, tabindex: '-1' }, make('td', { class: 'text' }, [KINDS[job.kind] || job.kind, job.what].filter(Boolean).join(' ')),
        state, make('td', { class: 'text' }, job.targets.join(', ')), said,
        make('td', { class: 'text' }, make('code', {}, job.name.slice(0, 6)), ` ${job.by}`));
    });
    body.replaceChildren(...(rows.length ? rows : [make('tr', {}, make('td', { colspan: '5' }, 'none yet'))]));
    // Whoever was at a button stays there, or in the row of its job when that has ended.
    const kept = had.job || had.of;
    const again = kept && ((had.job && body.querySelector(`[data-job="${CSS.escape(kept)}"]`)) || body.querySelector(`[data-of="${CSS.escape(kept)}"]`));
    if (again) again.focus();
  }

  // A browser has six connections to a server for all of its tabs: one that is not looked at gives its own back.
  const HIDDEN_MS = 10000;
  let source = null, hiding = 0;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(pause, HIDDEN_MS);
    else if (!source) connect();
  });

  function pause() {
    if (source) source.close();
    source = null;
    link.textContent = 'Paused while this tab is hidden.';
  }

  function connect() {
    const own = source = new EventSource('/api/events');
    const on = (name, act) => own.addEventListener(name, event => { act(JSON.parse(event.data)); some(); });
    own.onopen = () => { link.textContent = 'Live.'; };
    own.onerror = () => {
      link.textContent = 'The server does not answer; trying again …';
      // A session that has ended is answered with 401, which the browser does not try again.
      const again = () => { if (source === own) connect(); };
      if (own.readyState === EventSource.CLOSED) setTimeout(async () => {
        try { await ask('/api/session'); again(); } catch (error) { setTimeout(again, 5000); }
      }, 2000);
    };
    on('state', told => {
      const known = new Set(told.runs.map(news => news.state.run));
      [...runs.keys()].filter(run => !known.has(run)).forEach(forget);
      told.runs.forEach(news => update(news, true));
      trouble({ text: told.trouble });
      if (told.jobs) showJobs(told.jobs);
      showStanding(told.standing);
      if (!told.runs.length) forgetAll();
    });
    on('run', news => update(news, false));
    on('gone', told => forget(told.run));
    on('jobs', showJobs);
    on('standing', showStanding);
    on('trouble', trouble);
    addEventListener('pagehide', () => own.close(), { once: true });
  }

  function forgetAll() { [...runs.keys()].forEach(forget); }
  function trouble(told) { showError(document.getElementById('trouble'), told.text || ''); }
  addEventListener('pageshow', event => { if (event.persisted) location.reload(); });
  if (document.hidden) pause(); else connect();

  const form = document.getElementById('start');
  if (!form) return;
  const kind = () => form.elements.kind.value;
  const target = () => form.elements.target.selectedOptions[0];

  function fitForm() {
    for (const part of form.querySelectorAll('[data-for], [data-target]')) {
      const fits = (!part.dataset.for || part.dataset.for.split(' ').includes(kind()))
        && (!part.dataset.target || part.dataset.target === target().dataset.kind)
        && (!part.dataset.pace || part.dataset.pace.split(' ').includes(form.elements.pace.value));
      part.hidden = !fits;
    }
  }

  async function fitProfile() {
    const name = form.elements.profile.value, place = document.getElementById('settings');
    let told;
    try { told = await ask(`/api/profiles/${encodeURIComponent(name)}`); } catch (error) { say(error.message, true); return; }
    if (form.elements.profile.value !== name) return; // answers may come in another order than their questions
    document.getElementById('profile-about').textContent = [told.about, told.source].filter(Boolean).join(' ');
    place.replaceChildren(...told.fields.map(field => {
      const id = `set-${field.key}`;
      let input;
      if (field.kind === 'choice' || field.kind === 'boolean') {
        const choices = field.kind === 'boolean' ? [{ value: 'false' }, { value: 'true' }] : field.choices;
        input = make('select', { id }, ...choices.map(choice => make('option', { value: choice.value }, choice.value)));
      } else input = make('input', { id, size: '10', spellcheck: 'false', ...(field.kind === 'integer' ? { inputmode: 'numeric' } : {}) });
      input.value = field.value;
      input.dataset.key = field.key; input.dataset.was = input.value; input.dataset.kind = field.kind;
      const parts = [make('label', { for: id }, field.key), input];
      if (field.about) {
        input.setAttribute('aria-describedby', `${id}-about`);
        parts.push(make('span', { class: 'hint', id: `${id}-about` }, field.about));
      }
      return make('p', {}, ...parts);
    }));
  }

  function named() {
    const from = { run: 'profile', study: 'study', replay: 'trace' }[kind()];
    return from && form.elements[from] ? form.elements[from].value : '';
  }

  function logOrder() {
    const chosen = name => [...form.querySelectorAll(`input[name=${name}]:checked`)].map(input => input.value);
    const { mapping, pace, rate, drivers, sessions, lasts, repetitions } = form.elements;
    if (!mapping) return { kind: 'web-log' };
    const isRated = ['fixed', 'poisson'].includes(pace.value);
    return {
      kind: 'web-log', name: mapping.value, logs: chosen('log'), databases: chosen('database'),
      pace: isRated ? `${pace.value}:${rate.value.trim()}` : pace.value,
      log_speed: isRated ? '1x' : form.elements['log-speed'].value.trim(),
      drivers: Number(drivers.value) || 0, sessions: Number(sessions.value) || 0,
      duration: lasts.value.trim(), repetitions: Number(repetitions.value) || 1,
    };
  }

  function order() {
    if (kind() === 'web-log') return logOrder();
    const changes = [];
    if (kind() === 'run') for (const input of form.querySelectorAll('#settings [data-key]')) {
      const value = input.value.trim();
      if (value === input.dataset.was || !value) continue;
      changes.push(`${input.dataset.key}=${value}`);
    }
    changes.push(...form.elements.changes.value.split('\n').map(line => line.trim()).filter(Boolean));
    return {
      kind: kind(), name: named(),
      target: target().value, changes,
      condition: kind() === 'run' && target().dataset.kind === 'model' ? form.elements.condition.value : '',
      size: form.elements.size.value.trim(), repetitions: Number(form.elements.repetitions.value) || 1,
      ...(kind() === 'replay' && form.elements.trace ? { timing: form.elements.timing.value,
        speed: Number(form.elements.speed.value) || 0, fit: form.elements.fit.value } : {}),
      mode: form.elements.mode.value, confirm: target().dataset.kind === 'allowed' ? form.elements.confirm.value : '',
    };
  }

  const problem = document.getElementById('start-error');
  form.addEventListener('change', event => {
    fitForm();
    if (event.target.id === 'profile') fitProfile();
    showError(problem, '');
  });
  form.addEventListener('submit', async event => {
    event.preventDefault();
    const button = document.getElementById('start-button');
    button.disabled = true;
    showError(problem, '');
    try {
      const job = await ask('/api/jobs', order());
      say(`Started: ${job.what || job.kind}.`);
      form.elements.confirm.value = '';
    } catch (error) { showError(problem, error.message); }
    button.disabled = false;
    button.focus();
  });
  document.getElementById('check').addEventListener('click', async () => {
    try {
      const told = await ask('/api/check', order());
      showError(problem, told.error);
      if (told.ok) say('It would be taken.');
    } catch (error) { showError(problem, error.message); }
  });
  fitForm();
  fitProfile();
})();
