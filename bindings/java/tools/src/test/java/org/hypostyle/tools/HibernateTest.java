/* SPDX-License-Identifier: Apache-2.0 */
package org.hypostyle.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import jakarta.persistence.CascadeType;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hypostyle.hibernate.HypostyleDialect;
import org.junit.jupiter.api.Test;

/** Hibernate makes its tables, and stores, finds and changes entities. */
class HibernateTest {
    /** The state of an order. */
    public enum State {
        OPEN, PAID
    }

    /** A customer, whose key is an identity. */
    @Entity(name = "Customer")
    public static class Customer {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        private Long id;
        private String name;
        @OneToMany(mappedBy = "customer", cascade = CascadeType.ALL)
        private List<Purchase> purchases = new ArrayList<>();
    }

    /** A purchase, whose key is of a sequence, and whose changes are counted. */
    @Entity(name = "Purchase")
    public static class Purchase {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE)
        private Long id;
        @Version
        private int version;
        @ManyToOne
        private Customer customer;
        private BigDecimal total;
        private LocalDate day;
        private Instant at;
        private UUID key;
        private byte[] bytes;
        @Enumerated(EnumType.STRING)
        private State state;
    }

    private static SessionFactory factory() {
        Configuration configuration = new Configuration().addAnnotatedClass(Customer.class).addAnnotatedClass(Purchase.class);
        configuration.setProperty("hibernate.connection.url", "jdbc:hypostyle::memory:hibernate");
        configuration.setProperty("hibernate.hbm2ddl.auto", "create-drop");
        configuration.setProperty("hibernate.jdbc.batch_size", "20");
        return configuration.buildSessionFactory();
    }

    @Test
    void entities() {
        try (SessionFactory factory = factory()) {
            assertInstanceOf(HypostyleDialect.class,
                    factory.unwrap(org.hibernate.engine.spi.SessionFactoryImplementor.class).getJdbcServices().getDialect());
            Instant now = Instant.parse("2026-01-31T12:00:00.000005Z");
            UUID key = new UUID(1, 2);
            factory.inTransaction(session -> {
                Customer ada = new Customer();
                ada.name = "Ada";
                for (int number = 1; number <= 30; number++) {
                    Purchase purchase = new Purchase();
                    purchase.customer = ada;
                    purchase.total = BigDecimal.valueOf(number * 100L, 2);
                    purchase.day = LocalDate.of(2026, 1, number);
                    purchase.at = now;
                    purchase.key = key;
                    purchase.bytes = new byte[] {1, -1};
                    purchase.state = number % 2 == 0 ? State.OPEN : State.PAID;
                    ada.purchases.add(purchase);
                }
                session.persist(ada);
            });
            factory.inTransaction(session -> {
                assertEquals(new BigDecimal("465.00"), session.createSelectionQuery("select sum(p.total) from Purchase p where "
                        + "p.customer.name = :name", BigDecimal.class).setParameter("name", "Ada").getSingleResult());
                List<Purchase> page = session.createSelectionQuery("from Purchase p where p.state = :state and p.day > :day "
                        + "order by p.day", Purchase.class).setParameter("state", State.OPEN)
                        .setParameter("day", LocalDate.of(2026, 1, 10)).setFirstResult(1).setMaxResults(3).getResultList();
                assertEquals(List.of(14, 16, 18), page.stream().map(purchase -> purchase.day.getDayOfMonth()).toList());
                assertEquals(now, page.get(0).at);
                assertEquals(key, page.get(0).key);
                assertEquals(2, page.get(0).bytes.length);
                page.get(0).state = State.PAID;
            });
            factory.inTransaction(session -> assertEquals(14L, session.createSelectionQuery(
                    "select count(*) from Purchase p where p.state = State.OPEN", Long.class).getSingleResult()));
            conflict(factory);
            factory.inTransaction(session -> session.remove(session.createSelectionQuery("from Customer", Customer.class)
                    .getSingleResult()));
            factory.inTransaction(session -> assertNull(session.find(Purchase.class, 1L)));
        }
    }

    /** Changes a purchase that another session has changed since it was read. */
    private static void conflict(SessionFactory factory) {
        Long id = factory.fromTransaction(session -> session.createSelectionQuery("select min(p.id) from Purchase p", Long.class)
                .getSingleResult());
        try (Session late = factory.openSession()) {
            late.beginTransaction();
            Purchase read = late.find(Purchase.class, id);
            late.getTransaction().commit();
            factory.inTransaction(session -> session.find(Purchase.class, id).total = new BigDecimal("77.00"));
            late.beginTransaction();
            read.total = BigDecimal.TEN;
            assertThrows(OptimisticLockException.class, () -> late.getTransaction().commit());
        }
    }
}
