// What if, and advice.
'use strict';
(() => {
  const { ask, make, digits, time, size, showError } = Brickyard;
  const value = id => document.getElementById(id).value;

  function table(heads, rows, label, kind = '') {
    const head = make('tr', {}, ...heads.map((text, place) => make('th', { scope: 'col', class: place ? '' : 'text' }, text)));
    const body = rows.map(row => make('tr', {}, ...row.map((text, place) => make('td', { class: place ? '' : 'text' }, text))));
    return make('div', { class: 'scroll', role: 'region', tabindex: '0', 'aria-label': label },
      make('table', { class: kind }, make('thead', {}, head), make('tbody', {}, ...body)));
  }

  async function busy(form, act) {
    const button = form.querySelector('button'), words = button.textContent;
    button.disabled = true; button.textContent = 'Modelling …';
    try { await act(); } finally { button.disabled = false; button.textContent = words; }
  }

  const whatIf = document.getElementById('what-if');
  if (whatIf) whatIf.addEventListener('submit', event => {
    event.preventDefault();
    const problem = document.getElementById('what-if-error');
    busy(whatIf, async () => {
      showError(problem, '');
      try {
        const told = await ask('/api/what-if', { name: whatIf.dataset.name, workload: value('workload'), level: value('level'),
          members: value('members'), cache_mib: value('cache'), drive: value('drive'), condition: value('condition') });
        const within = (low, high, words) => low === null ? '' : ` (${words(low)} to ${words(high)})`;
        const sides = [told.before, told.after];
        const rows = [
          ['requests/s', ...sides.map(p => digits(p.iops) + within(p.iops_low, p.iops_high, digits))],
          ['MiB/s', ...sides.map(p => digits(p.mib_per_s))],
          ['mean response', ...sides.map(p => time(p.response_mean_ns) + within(p.response_low_ns, p.response_high_ns, time))],
          ['p99 of the response', ...sides.map(p => time(p.response_p99_ns))],
          ['capacity', size(told.capacity_before_bytes), size(told.capacity_after_bytes)],
        ];
        const warmup = Math.max(told.before.warmup_s, told.after.warmup_s);
        const filled = warmup > 0 ? ` Counted after ${digits(warmup)} s of warm-up, which fill the caches; a short run may be faster.` : '';
        const note = told.after.draws > 1 && told.after.iops_low === null ? `${told.after.draws} runs of the model with other seeds gave the same: chance plays no part in it.`
          : told.after.draws > 1 ? `In brackets: the 95 % interval of ${told.after.draws} runs of the model with other seeds.`
          : 'One run of the model: its spread is unknown.';
        document.getElementById('prediction').replaceChildren(table(['', 'as it is', told.changes.join(', ') || 'unchanged'], rows, 'Prediction', 'sides'),
          make('p', { class: 'hint' }, told.belief), make('p', { class: 'hint' }, `${note}${filled} Computed in ${told.took_s.toFixed(1)} s.`));
      } catch (error) { showError(problem, error.message); }
    });
  });

  const advice = document.getElementById('advice');
  if (advice) advice.addEventListener('submit', event => {
    event.preventDefault();
    const problem = document.getElementById('advice-error'), place = document.getElementById('advised');
    busy(advice, async () => {
      showError(problem, ''); place.replaceChildren();
      try {
        const conditions = [...advice.querySelectorAll('input[name=condition]:checked')].map(box => box.value);
        const told = await ask('/api/advice', { workload: value('workload'), require: value('require').split('\n'),
          capacity: value('capacity'), budget: value('budget'), fastest: value('order') === 'fastest', conditions });
        const inMib = told.unit === 'MiB/s';
        const rate = state => state ? digits(inMib ? state.bytes_per_s / 1048576 : state.iops) : '–';
        const rows = told.found.map(one => [one.name, one.cost_usd === null ? '–' : digits(one.cost_usd), size(one.capacity_bytes),
          one.rebuild_hours === null ? '–' : `${one.rebuild_is_simulated ? '' : '≈ '}${digits(one.rebuild_hours)} h`, ...told.conditions.map(name => rate(one.conditions[name]))]);
        const heads = ['brick', `USD, ${told.years} y`, 'capacity', 'rebuild', ...told.conditions.map(name => `${told.unit} ${name.replace(/_/g, ' ')}`)];
        const panel = make('section', { class: 'panel' }, make('h2', {}, told.question),
          ...told.answer.map(text => make('p', {}, text)), make('p', { class: 'hint' }, told.belief), table(heads, rows, 'Bricks'),
          make('h3', {}, 'Assumptions'), make('ul', {}, ...told.assumptions.map(text => make('li', {}, text))));
        if (told.picture) panel.append(make('figure', { class: 'picture' }, make('figcaption', {}, 'Cost against rate; the table has the figures'),
          make('img', { src: told.picture, alt: 'Cost against delivered rate of the simulated bricks; the table has the figures' })));
        place.replaceChildren(panel);
      } catch (error) { showError(problem, error.message); }
    });
  });
})();
