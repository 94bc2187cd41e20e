/* eslint-disable */
export type Gets = Record<string, any>;
export type Posts = Record<string, { body: any; answer: any }>;
export type Job = any; export type Node = any; export type Replica = any; export type Model = any; export type Scaling = any; export type Traffic = any; export type JobQueue = any; export type Key = any; export type Limit = any; export type UsageRow = any;
