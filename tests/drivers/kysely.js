// Kysely: schema builder, queries, transactions, introspection.
const { Kysely, PostgresDialect, sql } = require("kysely");
const { Pool } = require("pg");
const { connection, run, same } = require("./node_check.js");

run("Kysely", "kysely", "schema builder, queries, upsert, transactions, introspection", async () => {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new Pool(connection) }) });
  await db.schema.dropTable("kysely_rows").ifExists().execute();
  await db.schema.createTable("kysely_rows")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("name", "varchar", (column) => column.notNull())
    .addColumn("price", "numeric(10, 2)")
    .execute();
  await db.insertInto("kysely_rows").values([{ id: 1, name: "a", price: 1.5 }, { id: 2, name: "b", price: null }]).execute();
  const rows = await db.selectFrom("kysely_rows").selectAll().where("id", "in", [1, 2]).orderBy("id").execute();
  same("rows", rows, [{ id: 1, name: "a", price: "1.50" }, { id: 2, name: "b", price: null }]);
  const counted = await db.selectFrom("kysely_rows").select((eb) => eb.fn.countAll().as("n")).executeTakeFirst();
  same("count", counted, { n: "2" });
  await db.insertInto("kysely_rows").values({ id: 2, name: "c" })
    .onConflict((conflict) => conflict.column("id").doUpdateSet({ name: "c" })).execute();
  const updated = await db.updateTable("kysely_rows").set({ price: 4 }).where("name", "=", "c").returningAll().execute();
  same("updated", updated, [{ id: 2, name: "c", price: "4.00" }]);
  await db.transaction().execute(async (transaction) => {
    await transaction.deleteFrom("kysely_rows").execute();
    throw new Error("undo");
  }).catch(() => {});
  same("rolled back", (await sql`SELECT count(*)::int AS n FROM kysely_rows`.execute(db)).rows, [{ n: 2 }]);
  const tables = await db.introspection.getTables();
  const table = tables.find(({ name }) => name === "kysely_rows");
  const columns = table.columns.map(({ name, dataType, isNullable }) => [name, dataType, isNullable]);
  same("columns", columns.sort(), [["id", "int4", false], ["name", "varchar", false], ["price", "numeric", true]]);
  same("schemas", (await db.introspection.getSchemas()).some(({ name }) => name === "main"), true);
  await db.schema.dropTable("kysely_rows").execute();
  await db.destroy();
});
