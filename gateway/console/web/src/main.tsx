import 'uplot/dist/uPlot.min.css';
import './style.css';
import { render } from 'preact';
import './feed';
import { loadMe } from './me';
import { Shell } from './shell';

void loadMe();
render(<Shell />, document.getElementById('console')!);
