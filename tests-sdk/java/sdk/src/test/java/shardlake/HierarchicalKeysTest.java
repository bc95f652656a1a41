package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.own;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Keys of several paths: tenant, user and session. */
class HierarchicalKeysTest extends OwnDatabase {
    private final List<ObjectNode> written = new ArrayList<>();
    private CosmosContainer tenants;

    @BeforeAll
    void fill() {
        tenants = container(byPaths("/tenant", "/user", "/session"), FIVE_PARTITIONS);
        for (String tenant : List.of("t1", "t2", "t3")) {
            for (String user : List.of("u1", "u2")) {
                for (int session = 1; session <= 4; session++) {
                    ObjectNode item = Items.JSON.createObjectNode().put("id", tenant + user + session);
                    written.add(item.put("tenant", tenant).put("user", user).put("session", session));
                }
            }
        }
        written.forEach(item -> assertEquals(201, tenants.createItem(item).getStatusCode()));
    }

    private static PartitionKey key(ObjectNode item) {
        return key(item.get("tenant").asText(), item.get("user").asText(), item.get("session").asInt());
    }

    private static PartitionKey key(String tenant, String user, int session) {
        return new PartitionKeyBuilder().add(tenant).add(user).add(session).build();
    }

    // check: hierarchical-keys
    @Test
    void itemsAreReachedByTheWholeKey() {
        var definition = tenants.read().getProperties().getPartitionKeyDefinition();
        assertEquals(PartitionKind.MULTI_HASH, definition.getKind());
        assertEquals(PartitionKeyDefinitionVersion.V2, definition.getVersion());
        for (ObjectNode item : written) {
            assertEquals(item, own(tenants.readItem(Items.id(item), key(item), ObjectNode.class).getItem()));
        }
        refused(409, () -> tenants.createItem(written.get(0)));
        refused(404, () -> tenants.readItem("t1u11", key("t1", "u2", 1), ObjectNode.class));
        ObjectNode doomed = written.get(0).deepCopy().put("id", "doomed");
        tenants.createItem(doomed);
        assertEquals(204, tenants.deleteItem("doomed", key(doomed), null).getStatusCode());
    }

    // check: hierarchical-prefix-queries
    @Test
    void aQueryReadsAPrefixOfTheKey() {
        for (String order : List.of("", " ORDER BY c.id")) {
            var options = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("t2").build());
            assertEquals(ids("t2"), new HashSet<>(idsOf("SELECT * FROM c" + order, options)));
            options.setPartitionKey(new PartitionKeyBuilder().add("t2").add("u1").build());
            assertEquals(ids("t2u1"), new HashSet<>(idsOf("SELECT * FROM c" + order, options)));
            options.setPartitionKey(key("t2", "u1", 3));
            assertEquals(List.of("t2u13"), idsOf("SELECT * FROM c" + order, options));
        }
    }

    private List<String> idsOf(String query, CosmosQueryRequestOptions options) {
        return list(tenants.queryItems(query, options, ObjectNode.class)).stream().map(Items::id).toList();
    }

    private Set<String> ids(String start) {
        return new HashSet<>(written.stream().map(Items::id).filter(id -> id.startsWith(start)).toList());
    }

    // check: hierarchical-read-many
    @Test
    void manyItemsAreReadAtOnce() {
        var wanted = written.stream().map(item -> new CosmosItemIdentity(key(item), Items.id(item))).toList();
        var found = tenants.readMany(wanted, ObjectNode.class);
        assertEquals(ids("t"), new HashSet<>(found.getResults().stream().map(Items::id).toList()));
        assertEquals(written.size(), found.getResults().size());
        assertTrue(found.getRequestCharge() > 0);
    }

    // check: large-partition-keys
    @Test
    void aSimpleKeyOfVersionTwoIsLong() {
        var definition = new com.azure.cosmos.models.PartitionKeyDefinition();
        definition.setPaths(List.of("/pk"));
        definition.setVersion(PartitionKeyDefinitionVersion.V2);
        var properties = new com.azure.cosmos.models.CosmosContainerProperties(Items.unique("large"), definition);
        CosmosContainer large = container(properties, 400);
        String start = "x".repeat(1500);
        for (String end : List.of("a", "b")) {
            large.createItem(Items.item(end, start + end));
        }
        for (String end : List.of("a", "b")) {
            assertEquals(end, Items.id(large.readItem(end, new PartitionKey(start + end), ObjectNode.class).getItem()));
        }
        refused(404, () -> large.readItem("a", new PartitionKey(start + "b"), ObjectNode.class));
    }
}
