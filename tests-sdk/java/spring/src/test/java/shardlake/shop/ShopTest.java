package shardlake.shop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.exception.CosmosAccessException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Sort;

/** The repositories of the application. The certificate of the server's authority is in the trust store of the JVM. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class ShopTest {
    private ConfigurableApplicationContext application;
    private OrderRepository orders;
    private VisitRepository visits;

    @BeforeAll
    void start() throws Exception {
        Trust.authority();
        application = SpringApplication.run(Shop.class);
        orders = application.getBean(OrderRepository.class);
        visits = application.getBean(VisitRepository.class);
    }

    @AfterAll
    void stop() {
        var client = application.getBean(CosmosAsyncClient.class);
        client.getDatabase(application.getBean(Shop.class).getDatabaseName()).delete().block();
        application.close();
    }

    @BeforeEach
    void fill() {
        orders.deleteAll();
        orders.saveAll(IntStream.range(0, 24).mapToObj(n -> new Order("o" + n, "c" + n % 3, n % 2 == 0 ? "open" : "paid", n)).toList());
    }

    private static <T> List<T> list(Iterable<T> rows) {
        return StreamSupport.stream(rows.spliterator(), false).toList();
    }

    // check: items
    @Test
    void anOrderIsSavedFoundChangedAndDeleted() {
        Order saved = orders.save(new Order("new", "c0", "open", 100));
        assertNotNull(saved.getEtag());
        Order found = orders.findById("new", new PartitionKey("c0")).orElseThrow();
        assertEquals(100, found.getTotal());
        found.setTotal(101);
        orders.save(found);
        assertEquals(101, orders.findById("new").orElseThrow().getTotal());
        assertTrue(orders.existsById("new"));
        orders.deleteById("new", new PartitionKey("c0"));
        assertFalse(orders.existsById("new"));
        assertTrue(orders.findById("new", new PartitionKey("c0")).isEmpty());
    }

    // check: if-match
    @Test
    void anOldVersionIsNotSaved() {
        Order first = orders.findById("o1", new PartitionKey("c1")).orElseThrow();
        Order second = orders.findById("o1", new PartitionKey("c1")).orElseThrow();
        first.setTotal(50);
        orders.save(first);
        second.setTotal(60);
        assertThrows(CosmosAccessException.class, () -> orders.save(second));
        assertEquals(50, orders.findById("o1", new PartitionKey("c1")).orElseThrow().getTotal());
    }

    // check: queries
    @Test
    void ordersAreFoundByTheirProperties() {
        assertEquals(4, orders.findByCustomerAndState("c0", "open").size());
        assertEquals(12, orders.countByState("open"));
        assertTrue(orders.existsByState("paid"));
        assertEquals(24, orders.count());
        assertEquals(8, list(orders.findAll(new PartitionKey("c2"))).size());
    }

    // check: order-by
    @Test
    void ordersComeInOrder() {
        assertEquals(List.of(23, 22, 21, 20), orders.findByTotalGreaterThanOrderByTotalDesc(19).stream().map(Order::getTotal).toList());
        List<Integer> totals = list(orders.findAll(Sort.by("total"))).stream().map(Order::getTotal).toList();
        assertEquals(IntStream.range(0, 24).boxed().toList(), totals);
    }

    // check: aggregates
    @Test
    void aQueryOfItsOwnAddsUp() {
        assertEquals(List.of(84L), orders.sumOf("c0"));
    }

    // check: query-pages
    @Test
    void pagesFollowOneAnother() {
        List<Integer> totals = new ArrayList<>();
        Pageable next = new CosmosPageRequest(0, 7, null, Sort.by("total"));
        for (int pages = 0; next.isPaged(); pages++) {
            assertTrue(pages < 5, "the pages end");
            Page<Order> page = orders.findAll(next);
            assertTrue(page.getNumberOfElements() <= 7);
            assertEquals(24, page.getTotalElements());
            page.forEach(order -> totals.add(order.getTotal()));
            next = page.hasNext() ? page.nextPageable() : Pageable.unpaged();
        }
        assertEquals(IntStream.range(0, 24).boxed().toList(), totals);
    }

    // check: delete-by-query
    @Test
    void ordersAreDeletedByTheirProperties() {
        orders.deleteByState("open");
        assertEquals(12, orders.count());
        orders.deleteAll();
        assertEquals(0, orders.count());
    }

    // check: hierarchical-keys
    @Test
    void visitsHaveAHierarchicalKey() {
        visits.saveAll(List.of(new Visit("1", "t1", "u1"), new Visit("2", "t1", "u2"), new Visit("3", "t2", "u1")));
        PartitionKey key = new PartitionKeyBuilder().add("t1").add("u2").build();
        assertEquals("u2", visits.findById("2", key).orElseThrow().getUser());
        assertEquals(2, visits.findByTenant("t1").size());
        assertEquals(List.of("1"), visits.findByTenantAndUser("t1", "u1").stream().map(Visit::getId).toList());
        visits.deleteById("2", key);
        assertEquals(1, visits.findByTenant("t1").size());
    }
}
