// node-postgres: parameters, types, prepared statements, pools, transactions.
const { Client, Pool } = require("pg");
const { connection, run, same } = require("./node_check.js");

run("node-postgres", "pg", "parameters, types, prepared statements, rollback, errors, pool", async () => {
  const client = new Client(connection);
  await client.connect();
  await client.query("DROP TABLE IF EXISTS node_rows");
  await client.query(
    "CREATE TABLE node_rows (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10,2), at TIMESTAMP, tags INTEGER[], doc JSON)",
  );
  const insert = "INSERT INTO node_rows VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
  const added = await client.query(insert, [1, "a", "1.25", new Date("2024-01-02T03:04:05Z"), [1, 2], { x: 1 }]);
  same("returned", added.rows, [{ id: 1 }]);
  await client.query(insert, [2, null, null, null, null, null]);
  const rows = (await client.query("SELECT id, name, price, tags, doc FROM node_rows ORDER BY id")).rows;
  same("rows", rows, [
    { id: 1, name: "a", price: "1.25", tags: [1, 2], doc: { x: 1 } },
    { id: 2, name: null, price: null, tags: null, doc: null },
  ]);
  same("count", (await client.query("SELECT count(*) FROM node_rows")).rows, [{ count: "2" }]);
  same("version", Object.keys((await client.query("SELECT version()")).rows[0]), ["version"]);
  const prepared = { name: "one", text: "SELECT name FROM node_rows WHERE id = $1" };
  for (const [id, name] of [[1, "a"], [2, null], [1, "a"]]) {
    same("prepared", (await client.query({ ...prepared, values: [id] })).rows, [{ name }]);
  }
  const any = await client.query("SELECT id FROM node_rows WHERE id = ANY($1) ORDER BY id", [[1, 2, 3]]);
  same("any", any.rows, [{ id: 1 }, { id: 2 }]);
  await client.query("BEGIN");
  await client.query("DELETE FROM node_rows");
  await client.query("ROLLBACK");
  same("rolled back", (await client.query("SELECT id FROM node_rows")).rowCount, 2);
  const error = await client.query(insert, [1, "b", null, null, null, null]).catch((error) => error);
  same("error", error.code, "23505");
  await client.query("DROP TABLE node_rows");
  await client.end();
  const pool = new Pool({ ...connection, max: 3 });
  const each = [...Array(10).keys()].map((n) => pool.query("SELECT $1::int AS n", [n]));
  same("pool", (await Promise.all(each)).map(({ rows }) => rows[0].n), [...Array(10).keys()]);
  await pool.end();
});
