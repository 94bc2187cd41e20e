export type X = 1;
