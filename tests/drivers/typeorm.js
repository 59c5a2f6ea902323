// TypeORM: synchronize, entities, relations, query builder, transactions.
require("reflect-metadata");
const { DataSource, EntitySchema } = require("typeorm");
const { connection, run, same } = require("./node_check.js");

const Customer = new EntitySchema({
  name: "Customer",
  tableName: "typeorm_customer",
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: String, unique: true } },
  relations: { orders: { type: "one-to-many", target: "Order", inverseSide: "customer", cascade: true } },
});
const Order = new EntitySchema({
  name: "Order",
  tableName: "typeorm_order",
  columns: {
    id: { type: Number, primary: true, generated: true },
    price: { type: "decimal", precision: 10, scale: 2 },
    at: { type: "timestamp", createDate: true },
  },
  relations: { customer: { type: "many-to-one", target: "Customer", inverseSide: "orders", onDelete: "CASCADE" } },
});

run("TypeORM", "typeorm", "synchronize twice, entities, relations, query builder, transactions", async () => {
  const options = { type: "postgres", ...connection, username: connection.user, entities: [Customer, Order], synchronize: true };
  const source = await new DataSource(options).initialize();
  const customers = source.getRepository("Customer");
  const saved = await customers.save({ name: "ann", orders: [{ price: 1.5 }, { price: 2 }] });
  same("saved", [saved.id, saved.orders.length], [1, 2]);
  await customers.insert([{ name: "bob" }, { name: "cid" }]);
  const found = await customers.find({ relations: { orders: true }, order: { name: "ASC" } });
  same("found", found.map(({ name, orders }) => [name, orders.length]), [["ann", 2], ["bob", 0], ["cid", 0]]);
  const totals = await source.getRepository("Order").createQueryBuilder("o")
    .select("o.customer", "customer").addSelect("SUM(o.price)", "total").groupBy("o.customer").getRawMany();
  same("totals", totals.map(({ total }) => total), ["3.50"]);
  const [page, count] = await customers.findAndCount({ skip: 1, take: 1, order: { id: "ASC" } });
  same("page", [page[0].name, count], ["bob", 3]);
  await customers.save({ id: 2, name: "bobby" });
  same("saved again", (await customers.findOneBy({ id: 2 })).name, "bobby");
  await customers.upsert([{ name: "bobby" }, { name: "eve" }], ["name"]);
  same("upserted", await customers.count(), 4);
  await source.transaction(async (manager) => {
    await manager.delete("Customer", { name: "ann" });
    throw new Error("undo");
  }).catch(() => {});
  same("rolled back", await customers.countBy({ name: "ann" }), 1);
  await customers.delete({ name: "ann" });
  same("cascaded", await source.getRepository("Order").count(), 0);
  await source.synchronize();
  const runner = source.createQueryRunner();
  same("has table", await runner.hasTable("typeorm_order"), true);
  await runner.release();
  await source.dropDatabase();
  await source.destroy();
});
