// Dark or light: as the system has it, until the person chooses.
import { signal } from '@preact/signals';

const KEY = 'tidegate.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
let chosen: string | null = null;
try { chosen = localStorage.getItem(KEY); } catch { /* a private window */ }

export const theme = signal('light');

function apply() {
  theme.value = chosen ?? (system.matches ? 'dark' : 'light');
  document.documentElement.dataset['theme'] = theme.value;
}
system.addEventListener('change', apply);
apply();

export function switchTheme() {
  chosen = theme.value === 'dark' ? 'light' : 'dark';
  try { localStorage.setItem(KEY, chosen); } catch { /* likewise */ }
  apply();
}
