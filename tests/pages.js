// What is wrong with a page, as a list of sentences. A picture is judged as a reader sees it: at its size on the page.
() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width)
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  const canvas = document.createElement('canvas').getContext('2d');
  const wide = font => { canvas.font = `40px ${font}`; return canvas.measureText('mmmWWWiiill12345').width; };
  const isThere = family => ['serif', 'monospace'].some(other => wide(`${family}, ${other}`) !== wide(other));
  const known = new Map();
  const hasFont = families => {
    if (!known.has(families)) known.set(families, families.split(',').some(f => isThere(f.trim())));
    return known.get(families);
  };
  const slantOf = text => {
    const turned = /rotate\((-?[\d.]+)/.exec(text.getAttribute('transform') || '');
    return turned && Number(turned[1]) % 90 ? Number(turned[1]) * Math.PI / 180 : 0;
  };
  const name = svg => svg.getAttribute('aria-label') || 'a picture';
  const figures = [...document.querySelectorAll('figure')].filter(f => f.getBoundingClientRect().width);
  for (const figure of figures) {
    const svg = figure.querySelector('svg');
    if (!svg) { found.push('a figure without a picture'); continue; }
    const box = svg.getBoundingClientRect(), outer = figure.closest('section').getBoundingClientRect();
    const drawn = [...svg.querySelectorAll('.role-mark path, .role-mark line, .role-mark rect')]
      .filter(mark => { const b = mark.getBoundingClientRect(); return b.width || b.height; });
    if (!drawn.length || box.height < 60) found.push(`${name(svg)}: empty`);
    const scrolls = getComputedStyle(figure).overflowX === 'auto';
    if (scrolls && box.width > figure.clientWidth + 1 && getComputedStyle(figure, '::before').content === 'none')
      found.push(`${name(svg)}: goes on beyond the screen, and nothing says so`);
    if (box.left < outer.left || (box.right > outer.right + 1 && !scrolls) || box.bottom > outer.bottom + 1)
      found.push(`${name(svg)}: outside its box`);
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim()
      && t.style.opacity !== '0' && t.getAttribute('opacity') !== '0').map(t => [t, t.getBoundingClientRect()]);
    if (!texts.length) found.push(`${name(svg)}: no label`);
    const onAxis = texts.filter(([text]) => text.closest('.role-axis-label') && !slantOf(text));
    onAxis.forEach(([text, p], i) => onAxis.slice(i + 1).forEach(([other, q]) => {
      const apart = Math.max(q.left - p.right, p.left - q.right), size = parseFloat(getComputedStyle(text).fontSize);
      const scale = box.width / svg.viewBox.baseVal.width;
      if (Math.abs(p.bottom - q.bottom) < 2 && apart >= -1 && apart < 0.2 * size * scale)
        found.push(`${name(svg)}: labels touch: ${text.textContent} / ${other.textContent}`);
    }));
    texts.forEach(([text, p], i) => {
      const said = text.textContent;
      if (p.left < box.left - 1 || p.right > box.right + 1 || p.top < box.top - 1 || p.bottom > box.bottom + 1)
        found.push(`${name(svg)}: clipped: ${said}`);
      if (!hasFont(getComputedStyle(text).fontFamily)) found.push(`${name(svg)}: no font for: ${said}`);
      if (Math.min(p.height, p.width || p.height) > 0 && Math.max(p.height, 0) < 7 && Math.max(p.width, 0) < 200
          && p.height <= p.width) found.push(`${name(svg)}: too small (${p.height.toFixed(1)} px): ${said}`);
      texts.slice(i + 1).forEach(([other, q]) => {
        const slant = slantOf(text);
        if (slant && slant === slantOf(other)) {
          // Slanted labels end at the upper right corners of their boxes: what counts is how far their lines are apart.
          const apart = Math.abs((q.right - p.right) * Math.sin(slant) - (q.top - p.top) * Math.cos(slant));
          const size = parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width;
          if (apart < 0.9 * size) found.push(`${name(svg)}: overlap: ${said} / ${other.textContent}`);
        } else if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
          found.push(`${name(svg)}: overlap: ${said} / ${other.textContent}`);
      });
    });
  }
  for (const box of document.querySelectorAll('.scroll')) {
    const table = box.querySelector('table'), named = box.getAttribute('aria-label'), seen = box.getBoundingClientRect();
    if (!table || !seen.width) continue;
    if (width >= 1180 && table.offsetWidth > box.clientWidth + 1)
      found.push(`${named}: ${table.offsetWidth} wide in ${box.clientWidth}`);
    for (const cell of table.querySelectorAll('tbody td')) {
      const place = cell.getBoundingClientRect();
      if (place.width && cell.textContent.length > 4 && place.height > 8 * place.width)
        found.push(`${named}: a letter a line: ${cell.textContent}`);
    }
    // A row that scrolls keeps its name in sight, and shows figures before anybody scrolls.
    const row = [...(table.querySelector('tbody tr')?.cells || [])];
    if (table.offsetWidth <= box.clientWidth + 1 || row.length < 2) continue;
    const inside = row.filter(cell => cell.getBoundingClientRect().right <= seen.right + 1);
    if (inside.filter(cell => !cell.classList.contains('text')).length < 2)
      found.push(`${named}: no two figures are seen before it is scrolled`);
    box.scrollLeft = box.scrollWidth;
    const first = row[0].getBoundingClientRect();
    if (first.left < seen.left - 1 || first.right > seen.right + 1)
      found.push(`${named}: its first column is out of sight once it is scrolled`);
    box.scrollLeft = 0;
  }
  return [...new Set(found)];
}
