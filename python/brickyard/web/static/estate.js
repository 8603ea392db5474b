// Arrays: progress as it goes on, actions after a typed confirmation, alarms that somebody has seen.
'use strict';
(() => {
  const { ask, say, span } = Brickyard;
  const head = document.getElementById('array');

  for (const form of document.querySelectorAll('form.deed')) form.addEventListener('submit', async event => {
    event.preventDefault();
    const given = new FormData(form);
    const body = { action: form.dataset.action, array: head ? head.dataset.array : String(given.get('array') || '') };
    for (const name of ['confirm', 'device', 'other', 'level', 'rate']) if (given.has(name)) body[name] = given.get(name);
    if (given.has('names')) body.names = given.getAll('names');
    body.destroys_data = given.has('destroys_data');
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      say((await ask('/api/arrays/do', body)).done);
      form.elements.confirm.value = '';
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
  if (head) setInterval(progress, 3000);
})();
