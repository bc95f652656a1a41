package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Items.unique;
import static shardlake.Refusals.refused;
import static shardlake.Refusals.until;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CompositePath;
import com.azure.cosmos.models.CompositePathSortOrder;
import com.azure.cosmos.models.ComputedProperty;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IncludedPath;
import com.azure.cosmos.models.IndexingMode;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Databases, containers and their throughput. */
class ResourcesTest extends OwnDatabase {
    // check: databases
    @Test
    void aDatabaseIsCreatedReadListedQueriedAndDeleted() {
        CosmosClient client = Server.client();
        String id = unique("life");
        var created = client.createDatabase(id);
        assertEquals(201, created.getStatusCode());
        assertTrue(created.getRequestCharge() > 0);
        refused(409, () -> client.createDatabase(id));
        assertEquals(200, client.createDatabaseIfNotExists(id).getStatusCode());
        assertEquals(id, client.getDatabase(id).read().getProperties().getId());
        assertTrue(client.readAllDatabases().stream().anyMatch(one -> one.getId().equals(id)));
        String query = "SELECT * FROM root r WHERE r.id = '" + id + "'";
        assertEquals(1, client.queryDatabases(query, null).stream().count());
        assertEquals(204, client.getDatabase(id).delete().getStatusCode());
        refused(404, () -> client.getDatabase(id).read());
        refused(404, () -> client.getDatabase(id).delete());
    }

    // check: database-names
    @Test
    void namesHaveSpacesAndLettersOfOtherAlphabets() {
        for (String name : List.of("a b", "Ünïcode", "数据库", "emoji 😀", "it's", "a+b=c&d", "100%")) {
            String id = unique(name);
            Server.client().createDatabase(id);
            assertEquals(id, Server.client().getDatabase(id).read().getProperties().getId());
            assertEquals(204, Server.client().getDatabase(id).delete().getStatusCode());
        }
    }

    // check: containers
    @Test
    void aContainerIsCreatedReadListedQueriedAndDeleted() {
        String id = unique("life");
        var created = database.createContainer(id, "/pk");
        assertEquals(201, created.getStatusCode());
        assertEquals(List.of("/pk"), created.getProperties().getPartitionKeyDefinition().getPaths());
        assertEquals(IndexingMode.CONSISTENT, created.getProperties().getIndexingPolicy().getIndexingMode());
        refused(409, () -> database.createContainer(id, "/pk"));
        assertEquals(200, database.createContainerIfNotExists(id, "/pk").getStatusCode());
        assertTrue(database.readAllContainers().stream().anyMatch(one -> one.getId().equals(id)));
        assertEquals(1, database.queryContainers("SELECT * FROM root r WHERE r.id = '" + id + "'").stream().count());
        assertEquals(204, database.getContainer(id).delete().getStatusCode());
        refused(404, () -> database.getContainer(id).read());
    }

    // check: container-policies
    @Test
    void policiesAreKeptAndReplaced() {
        var orders = List.of(
                new CompositePath().setPath("/name").setOrder(CompositePathSortOrder.ASCENDING),
                new CompositePath().setPath("/n").setOrder(CompositePathSortOrder.DESCENDING));
        CosmosContainerProperties properties = byPk()
                .setDefaultTimeToLiveInSeconds(3600)
                .setIndexingPolicy(new IndexingPolicy()
                        .setIncludedPaths(List.of(new IncludedPath("/*")))
                        .setExcludedPaths(List.of(new ExcludedPath("/large/*")))
                        .setCompositeIndexes(List.of(orders)))
                .setComputedProperties(List.of(new ComputedProperty("lower", "SELECT VALUE LOWER(c.name) FROM c")));
        CosmosContainer container = container(properties, 400);
        CosmosContainerProperties found = container.read().getProperties();
        assertEquals(3600, found.getDefaultTimeToLiveInSeconds());
        assertEquals(List.of(orders), found.getIndexingPolicy().getCompositeIndexes());
        assertTrue(found.getIndexingPolicy().getExcludedPaths().stream().anyMatch(path -> path.getPath().equals("/large/*")));
        assertEquals("lower", found.getComputedProperties().iterator().next().getName());

        container.createItem(item("a", "k", 1).put("name", "X"));
        container.createItem(item("b", "k", 2).put("name", "x"));
        var rows = container.queryItems("SELECT VALUE c.id FROM c WHERE c.lower = 'x' ORDER BY c.name, c.n DESC", null, String.class);
        assertEquals(List.of("a", "b"), rows.stream().toList());

        assertEquals(200, container.replace(found.setDefaultTimeToLiveInSeconds(60)).getStatusCode());
        assertEquals(60, container.read().getProperties().getDefaultTimeToLiveInSeconds());
    }

    // check: container-refusals
    @Test
    void definitionsThatCannotBeAreRefused() {
        refused(400, () -> container(byPk().setDefaultTimeToLiveInSeconds(-10), 400));
        refused(400, () -> container(new CosmosContainerProperties("x".repeat(256), "/pk"), 400));
        refused(400, () -> container(byPaths("/a", "/b", "/c", "/d"), 400));
    }

    // check: throughput
    @Test
    void throughputIsReadAndReplaced() {
        CosmosContainer container = container(byPk(), 12_000);
        assertEquals(12_000, container.readThroughput().getProperties().getManualThroughput());
        var replaced = container.replaceThroughput(ThroughputProperties.createManualThroughput(10_000));
        assertEquals(200, replaced.getStatusCode());
        assertEquals(10_000, container.readThroughput().getProperties().getManualThroughput());
        refused(400, () -> container.replaceThroughput(ThroughputProperties.createManualThroughput(-200)));

        CosmosContainerProperties scaling = byPk();
        database.createContainer(scaling, ThroughputProperties.createAutoscaledThroughput(4000));
        assertEquals(4000, database.getContainer(scaling.getId()).readThroughput().getProperties().getAutoscaleMaxThroughput());
    }

    // check: shared-throughput
    @Test
    void aDatabaseSharesItsThroughput() {
        String id = unique("shared");
        Server.client().createDatabase(id, ThroughputProperties.createManualThroughput(1000));
        var shared = Server.client().getDatabase(id);
        assertEquals(1000, shared.readThroughput().getProperties().getManualThroughput());
        shared.delete();
    }

    // check: split-by-throughput
    @Test
    void moreThroughputSplitsAContainerUnderAWarmClient() {
        CosmosContainer container = container();
        for (int n = 0; n < 40; n++) {
            container.createItem(item("" + n, "k" + n, n));
        }
        assertEquals(1, container.getFeedRanges().size());
        container.replaceThroughput(ThroughputProperties.createManualThroughput(25_000));
        until("three partitions", () -> {
            try (CosmosClient another = Server.builder().buildClient()) {
                return another.getDatabase(database.getId()).getContainer(container.getId()).getFeedRanges().size() == 3;
            }
        });
        assertEquals(40, container.queryItems("SELECT * FROM c", null, ObjectNode.class).stream().count());
    }

    // check: recreated-container
    @Test
    void aContainerOfTheSameNameIsAnother() {
        CosmosContainerProperties properties = byPk();
        CosmosContainer first = container(properties, 400);
        String rid = first.read().getProperties().getResourceId();
        first.createItem(item("1", "a"));
        first.delete();
        CosmosContainer second = container(properties, 400);
        assertNotEquals(rid, second.read().getProperties().getResourceId());
        try (CosmosClient another = Server.builder().buildClient()) {
            CosmosContainer seen = another.getDatabase(database.getId()).getContainer(properties.getId());
            refused(404, () -> seen.readItem("1", new PartitionKey("a"), ObjectNode.class));
        }
    }
}
