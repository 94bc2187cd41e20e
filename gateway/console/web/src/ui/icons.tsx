// Icons of one stroke, 20 by 20.
const PATHS: Record<string, string> = {
  overview: 'M3 11l7-7 7 7M5 9.500V16h3.500v-4h3v4H15V9.500',
  cluster: 'M4 4h5v5H4zM11 4h5v5h-5zM4 11h5v5H4zM11 11h5v5h-5z',
  gateways: 'M4 4h12v4H4zM4 12h12v4H4zM7 6h.010M7 14h.010M10 8v4',
  models: 'M10 3l6.500 3.500L10 10 3.500 6.500zM3.500 10L10 13.500 16.500 10M3.500 13.500L10 17l6.500-3.500',
  queues: 'M4 5h12M4 10h8M4 15h10',
  what_if: 'M4 16l4-5 3 2 5-8M12.500 5H16v3.500',
  playground: 'M4 5h12v8H9l-3.500 3v-3H4z',
  keys: 'M8 12.500a3.500 3.500 0 1 1 2.500-6 3.500 3.500 0 0 1 .7 3.700L16.500 15.500V17H14v-2h-2v-2h-1.500l-.700-.700',
  usage: 'M4 16V4M4 16h12M7.500 13V9M11 13V6M14.500 13v-2.500',
  evaluations: 'M3 5h6v10H3zM11 5h6v10h-6zM5 8h2M5 11h2M13 8h2M13 11h2',
  limits: 'M3.500 14a7 7 0 1 1 13 0M10 13l3.500-4.500',
  requests: 'M5 3.500h7l3 3V16.500H5zM8 9.500h4M8 12.500h4',
  tenants: 'M8 3h4v4H8zM3 13h4v4H3zM13 13h4v4h-4zM10 7v3M5 13v-3h10v3',
  audit: 'M10 3l6 2.500V10c0 3.500-2.500 6-6 7-3.500-1-6-3.500-6-7V5.500zM7.500 10l2 2 3.500-4',
  settings: 'M4 6h6M14 6h2M4 14h2M10 14h6M12 4v4M8 12v4',
  start: 'M5 4l10 6-10 6z',
  search: 'M9 4a5 5 0 1 1 0 10A5 5 0 0 1 9 4zM13 13l4 4',
  close: 'M5 5l10 10M15 5L5 15',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  more: 'M5 10h.010M10 10h.010M15 10h.010',
  sun: 'M10 7a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM10 2.500V4M10 16v1.500M2.500 10H4M16 10h1.500M4.700 4.700l1 1M14.300 14.300l1 1M15.300 4.700l-1 1M5.700 14.300l-1 1',
  out: 'M11 4H4v12h7M9 10h8M14 7l3 3-3 3',
};

export function Icon({ name }: { name: string }) {
  return <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true"><path d={PATHS[name] ?? ''} /></svg>;
}
