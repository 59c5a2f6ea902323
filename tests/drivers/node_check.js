// What the checks of JavaScript's clients share.
const { isDeepStrictEqual } = require("node:util");

exports.connection = {
  host: process.env.PGHOST ?? "127.0.0.1",
  port: Number(process.env.PGPORT ?? 5433),
  user: process.env.PGUSER ?? "ada",
  database: process.env.PGDATABASE ?? "hypostyle",
};

exports.same = (what, found, expected) => {
  const plain = (value) => JSON.parse(JSON.stringify(value ?? null));
  if (!isDeepStrictEqual(plain(found), plain(expected))) {
    throw new Error(`${what}: ${JSON.stringify(found)} in place of ${JSON.stringify(expected)}`);
  }
};

// Runs a check, and prints its line of the table.
exports.run = (client, module, what, check) => {
  const folder = `${process.env.NODE_PATH}/${module}/package.json`;
  const { version } = JSON.parse(require("node:fs").readFileSync(folder, "utf8"));
  check().then(
    () => {
      console.log(`CLIENT\t${client}\t${version}\t${what}`);
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
};
