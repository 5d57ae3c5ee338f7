// What tests of the page look for in a browser: elements that are too wide, and texts that are too faint.
({
  // Elements that are wider than the window, outside of what scrolls by itself.
  sideways() {
    const wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= wide) return [];
    return [...document.querySelectorAll("body *")]
      .filter((each) => !each.closest(".scroll > *") && each.getBoundingClientRect().right > wide + 1)
      .map((each) => `${each.tagName}.${each.getAttribute("class")}: ${each.textContent.slice(0, 40)}`)
      .concat(`scrollWidth ${document.documentElement.scrollWidth}`);
  },

  // Texts whose contrast with what is behind them is below 4.5 (WCAG AA), or 3 where they are large.
  faint() {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = (color) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
      for (let each = element; each; each = each.parentElement) {
        const found = rgb(getComputedStyle(each).backgroundColor);
        if (found[3] === 255) return found;
      }
      return [255, 255, 255];
    };
    const faint = [];
    for (const element of document.querySelectorAll('body *')) {
      const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
      if (!own || !element.getClientRects().length || ['NOSCRIPT', 'TITLE', 'title', 'OPTION'].includes(element.tagName)) continue;
      const style = getComputedStyle(element);
      if (style.clipPath !== 'none' || element.closest('.skip, .visually-hidden')) continue;
      const ink = rgb(element instanceof SVGElement ? style.fill : style.color);
      let ground = behind(element);
      if (element.classList.contains('episode-number')) ground = rgb(getComputedStyle(element.previousElementSibling).fill);
      let opacity = 1;
      for (let each = element; each; each = each.parentElement) opacity *= Number(getComputedStyle(each).opacity);
      const mixed = ink.map((c, i) => c * opacity + ground[i] * (1 - opacity));
      const [one, other] = [light(mixed), light(ground)].sort((a, b) => b - a);
      const ratio = (one + 0.05) / (other + 0.05);
      const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute('class')}: ${element.textContent.slice(0, 30)}`);
    }
    return faint;
  },
})
