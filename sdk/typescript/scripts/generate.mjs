// Writes src/generated/api.ts from docs/openapi.json. With --check it only compares and fails if the file is not current.

import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const source = new URL('../../../docs/openapi.json', import.meta.url);
const target = new URL('../src/generated/api.ts', import.meta.url);

const nodes = await openapiTS(source, {
  // A property with a default is optional in a request.
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  silent: true,
});
const text = `// Generated from docs/openapi.json by \`npm run generate\`. Do not edit.\n\n${astToString(nodes)}`;

if (process.argv.includes('--check')) {
  const current = await readFile(target, 'utf8').catch(() => '');
  if (current !== text) {
    console.error('src/generated/api.ts does not match docs/openapi.json: run `npm run generate` in sdk/typescript');
    process.exit(1);
  }
} else {
  await writeFile(target, text);
}
