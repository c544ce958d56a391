// Writes src/generated/api.ts from docs/openapi.json, and src/generated/prices.ts from sdk/prices.json. With --check it only compares and fails
// if a file is not current.

import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const root = new URL('../../../', import.meta.url);

const nodes = await openapiTS(new URL('docs/openapi.json', root), {
  // A property with a default is optional in a request.
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  silent: true,
});
await write('api.ts', 'docs/openapi.json', astToString(nodes));

const prices = await readFile(new URL('sdk/prices.json', root), 'utf8');
await write('prices.ts', 'sdk/prices.json', `export default ${prices.trim()};\n`);

async function write(name, source, code) {
  const target = new URL(`../src/generated/${name}`, import.meta.url);
  const text = `// Generated from ${source} by \`npm run generate\`. Do not edit.\n\n${code}`;
  if (!process.argv.includes('--check')) return writeFile(target, text);
  const current = await readFile(target, 'utf8').catch(() => '');
  if (current !== text) {
    console.error(`src/generated/${name} does not match ${source}: run \`npm run generate\` in sdk/typescript`);
    process.exitCode = 1;
  }
}
