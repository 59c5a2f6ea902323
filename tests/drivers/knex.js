// knex: schema builder, queries, transactions, metadata, migrations.
const { connection, run, same } = require("./node_check.js");
const knex = require("knex")({ client: "pg", connection });

const migrations = {
  getMigrations: async () => ["1_knex_extra"],
  getMigrationName: (name) => name,
  getMigration: async () => ({
    up: (knex) => knex.schema.createTable("knex_extra", (table) => table.integer("a")),
    down: (knex) => knex.schema.dropTable("knex_extra"),
  }),
};

run("knex", "knex", "schema builder, queries, upsert, transactions, columnInfo, migrations", async () => {
  for (const table of ["knex_order", "knex_customer"]) await knex.schema.dropTableIfExists(table);
  await knex.schema.createTable("knex_customer", (table) => {
    table.increments("id");
    table.string("name", 50).notNullable().unique();
    table.timestamp("at").defaultTo(knex.fn.now());
  });
  await knex.schema.createTable("knex_order", (table) => {
    table.increments("id");
    table.integer("customer").references("id").inTable("knex_customer");
    table.decimal("price", 10, 2);
  });
  same("has table", await knex.schema.hasTable("knex_order"), true);
  same("has column", await knex.schema.hasColumn("knex_order", "price"), true);
  const ids = await knex("knex_customer").insert([{ name: "ann" }, { name: "bob" }]).returning("id");
  same("ids", ids, [{ id: 1 }, { id: 2 }]);
  await knex("knex_order").insert([{ customer: 1, price: 1.5 }, { customer: 1, price: 2 }, { customer: 2, price: 3 }]);
  const totals = await knex("knex_customer as c")
    .join("knex_order as o", "o.customer", "c.id").select("c.name").sum("o.price as total").groupBy("c.name").orderBy("c.name");
  same("totals", totals, [{ name: "ann", total: "3.50" }, { name: "bob", total: "3.00" }]);
  same("count", await knex("knex_order").count(), [{ count: "3" }]);
  same("first", await knex("knex_order").where("price", ">", 1.7).orderBy("id").first("id"), { id: 2 });
  same("in", (await knex("knex_order").whereIn("customer", [1, 5])).length, 2);
  await knex("knex_customer").insert({ id: 2, name: "bobby" }).onConflict("id").merge();
  same("merged", await knex("knex_customer").where({ id: 2 }).pluck("name"), ["bobby"]);
  const failure = await knex.transaction(async (transaction) => {
    await transaction("knex_order").del();
    throw new Error("undo");
  }).catch((error) => error.message);
  same("undone", [failure, await knex("knex_order").count()], ["undo", [{ count: "3" }]]);
  const info = await knex("knex_order").columnInfo();
  same("columns", [info.id.type, info.price.type, info.price.nullable], ["integer", "numeric", true]);
  same("text", (await knex("knex_customer").columnInfo()).name.type, "character varying");
  await knex.migrate.latest({ migrationSource: migrations });
  same("migrated", await knex.schema.hasTable("knex_extra"), true);
  await knex.migrate.rollback({ migrationSource: migrations });
  same("rolled back", await knex.schema.hasTable("knex_extra"), false);
  await knex.schema.alterTable("knex_order", (table) => table.string("note"));
  await knex.schema.dropTable("knex_order");
  await knex.schema.dropTable("knex_customer");
  await knex.destroy();
});
