package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Items.own;
import static shardlake.Items.parse;
import static shardlake.Items.unique;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Point operations, their conditions and their errors. */
class ItemsTest extends OwnDatabase {
    private static final PartitionKey A = new PartitionKey("a");
    private CosmosContainer items;

    @BeforeAll
    void createItems() {
        items = container(byPk(), FIVE_PARTITIONS);
    }

    // check: items
    @Test
    void anItemIsCreatedReadReplacedUpsertedAndDeleted() {
        ObjectNode item = parse("{'count': 1, 'nested': {'list': [1, 'two', null, true, {'deep': 1.5}]}}");
        item.put("id", unique("crud")).put("pk", "a");
        String id = Items.id(item);
        var created = items.createItem(item);
        assertEquals(201, created.getStatusCode());
        assertEquals(item, own(created.getItem()));
        assertEquals(created.getETag(), created.getItem().get("_etag").asText());
        assertTrue(created.getRequestCharge() > 0);
        assertNotNull(created.getSessionToken());

        var read = items.readItem(id, A, ObjectNode.class);
        assertEquals(200, read.getStatusCode());
        assertEquals(item, own(read.getItem()));

        var replaced = items.replaceItem(item.put("count", 2), id, A, null);
        assertEquals(200, replaced.getStatusCode());
        assertNotEquals(created.getETag(), replaced.getETag());
        assertEquals(200, items.upsertItem(item.put("count", 3)).getStatusCode());
        assertEquals(3, items.readItem(id, A, ObjectNode.class).getItem().get("count").asInt());
        assertEquals(201, items.upsertItem(item(unique("new"), "a")).getStatusCode());

        assertEquals(204, items.deleteItem(id, A, null).getStatusCode());
        refused(404, () -> items.readItem(id, A, ObjectNode.class));
        refused(404, () -> items.deleteItem(id, A, null));
        refused(404, () -> items.replaceItem(item, id, A, null));
    }

    // check: items-async
    @Test
    void theAsynchronousClientDoesTheSame() {
        CosmosAsyncContainer async = async(items);
        String id = unique("async");
        ObjectNode item = item(id, "a", 1);
        Integer n = async.createItem(item)
                .flatMap(created -> async.replaceItem(item.put("n", 2), id, A))
                .flatMap(replaced -> async.upsertItem(item.put("n", 3)))
                .flatMap(upserted -> async.readItem(id, A, ObjectNode.class))
                .map(read -> read.getItem().get("n").asInt())
                .block();
        assertEquals(3, n);
        assertEquals(204, async.deleteItem(id, A).map(CosmosItemResponse::getStatusCode).block());
        refused(404, () -> async.readItem(id, A, ObjectNode.class).block());
    }

    // check: items-same-id
    @Test
    void anIdExistsOnceInEachLogicalPartition() {
        String id = unique("same");
        items.createItem(item(id, "a", 1));
        items.createItem(item(id, "b", 2));
        refused(409, () -> items.createItem(item(id, "a")));
        assertEquals(2, items.readItem(id, new PartitionKey("b"), ObjectNode.class).getItem().get("n").asInt());
        refused(404, () -> items.readItem(id, new PartitionKey("c"), ObjectNode.class));
    }

    // check: partition-key-types
    @Test
    void partitionKeysAreOfEveryType() {
        for (Object key : new Object[] {"", "text", 0, -0.5, 1e300, 42, true, false, "ünïcode 😀", "x".repeat(1000)}) {
            ObjectNode item = Items.JSON.createObjectNode().put("id", unique("typed"));
            item.set("pk", Items.JSON.valueToTree(key));
            items.createItem(item);
            assertEquals(item, own(items.readItem(Items.id(item), new PartitionKey(key), ObjectNode.class).getItem()));
        }
        ObjectNode withNull = Items.JSON.createObjectNode().put("id", unique("null")).putNull("pk");
        items.createItem(withNull);
        assertEquals(withNull, own(items.readItem(Items.id(withNull), new PartitionKey(null), ObjectNode.class).getItem()));
        ObjectNode without = Items.JSON.createObjectNode().put("id", unique("none"));
        items.createItem(without);
        assertEquals(without, own(items.readItem(Items.id(without), PartitionKey.NONE, ObjectNode.class).getItem()));
    }

    // check: item-ids
    @Test
    void idsHaveSpacesAndLettersOfOtherAlphabets() {
        for (String name : List.of("a b", " leading", "Ünïcode", "数据", "😀", "quote'd", "\"double\"", "a+b", "100%", "a=b&c", "tab\tin", "[x]{y}", "~!@$^*()")) {
            ObjectNode item = item(unique("") + name, name);
            PartitionKey key = new PartitionKey(name);
            items.createItem(item);
            assertEquals(item, own(items.readItem(Items.id(item), key, ObjectNode.class).getItem()));
            assertEquals(204, items.deleteItem(Items.id(item), key, null).getStatusCode());
        }
        refused(400, () -> items.createItem(item("x".repeat(1024), "a")));
    }

    // check: values-exact
    @Test
    void numbersTextsAndTheOrderOfMembersComeBackAsSent() {
        ObjectNode item = item(unique("exact"), "a").put("z", 1).put("a", 2);
        for (double number : new double[] {-0.5, 0.1, 1e21, Double.MAX_VALUE, Double.MIN_VALUE, 123456789.123456}) {
            item.withArray("numbers").add(number);
        }
        item.withArray("numbers").add(0).add(9007199254740991L).add(-9007199254740991L);
        for (String text : List.of("", "\u0000", "\u001f", "\"\\/", "\u2028", "😀", "é")) {
            item.withArray("texts").add(text);
        }
        item.withArray("empty").addObject();
        items.createItem(item);
        ObjectNode found = own(items.readItem(Items.id(item), A, ObjectNode.class).getItem());
        assertEquals(item.toString(), found.toString());
    }

    // check: if-match
    @Test
    void anOldEtagIsRefusedWith412() {
        ObjectNode item = item(unique("guarded"), "a", 1);
        String id = Items.id(item);
        var stale = new CosmosItemRequestOptions().setIfMatchETag(items.createItem(item).getETag());
        var current = items.replaceItem(item.put("n", 2), id, A, stale);
        refused(412, () -> items.replaceItem(item.put("n", 3), id, A, stale));
        refused(412, () -> items.deleteItem(id, A, stale));
        refused(412, () -> items.upsertItem(item.put("n", 3), stale));
        assertEquals(2, items.readItem(id, A, ObjectNode.class).getItem().get("n").asInt());
        var fresh = new CosmosItemRequestOptions().setIfMatchETag(current.getETag());
        assertEquals(204, items.deleteItem(id, A, fresh).getStatusCode());
    }

    // check: if-none-match
    @Test
    void aReadWithTheCurrentEtagAnswers304() {
        ObjectNode item = item(unique("cached"), "a", 1);
        var unless = new CosmosItemRequestOptions().setIfNoneMatchETag(items.createItem(item).getETag());
        assertEquals(304, statusOfRead(Items.id(item), unless));
        items.replaceItem(item.put("n", 2), Items.id(item), A, null);
        assertEquals(200, statusOfRead(Items.id(item), unless));
    }

    private int statusOfRead(String id, CosmosItemRequestOptions options) {
        try {
            return items.readItem(id, A, options, ObjectNode.class).getStatusCode();
        } catch (com.azure.cosmos.CosmosException error) {
            return error.getStatusCode();
        }
    }

    // check: partition-key-mismatch
    @Test
    void thePartitionKeyOfARequestIsThatOfItsItem() {
        ObjectNode item = item(unique("mismatch"), "a");
        items.createItem(item);
        refused(400, () -> items.replaceItem(item.deepCopy().put("pk", "b"), Items.id(item), A, null));
        refused(400, () -> items.createItem(item(unique("mismatch"), "b"), A, null));
    }

    // check: large-items
    @Test
    void itemsAboveTwoMegabytesAreRefusedWith413() {
        int limit = 2 * 1024 * 1024;
        refused(413, () -> items.createItem(item(unique("large"), "a").put("text", "x".repeat(limit + 1024))));
        ObjectNode near = item(unique("near"), "a").put("text", "x".repeat(limit - 4096));
        assertEquals(201, items.createItem(near).getStatusCode());
        assertEquals(near, own(items.readItem(Items.id(near), A, ObjectNode.class).getItem()));
    }

    // check: unique-keys
    @Test
    void uniqueKeysHoldWithinALogicalPartition() {
        var properties = byPk().setUniqueKeyPolicy(new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/email")))));
        CosmosContainer container = container(properties, 400);
        container.createItem(item("1", "a").put("email", "x@example.org"));
        refused(409, () -> container.createItem(item("2", "a").put("email", "x@example.org")));
        assertEquals(201, container.createItem(item("2", "b").put("email", "x@example.org")).getStatusCode());
    }

    // check: session-tokens
    @Test
    void aReaderSeesTheWritesThatItsSessionTokenNames() {
        ObjectNode item = item(unique("session"), "a", 0);
        items.createItem(item);
        try (CosmosClient another = Server.builder().buildClient()) {
            CosmosContainer seen = another.getDatabase(database.getId()).getContainer(items.getId());
            for (int n = 1; n <= 20; n++) {
                var written = items.replaceItem(item.put("n", n), Items.id(item), A, null);
                var options = new CosmosItemRequestOptions().setSessionToken(written.getSessionToken());
                assertEquals(n, seen.readItem(Items.id(item), A, options, ObjectNode.class).getItem().get("n").asInt());
            }
        }
    }

    // check: delete-by-partition-key
    @Test
    void allItemsOfALogicalPartitionAreDeletedAtOnce() {
        String doomed = unique("doomed");
        for (String id : List.of("1", "2", "3")) {
            items.createItem(item(id, doomed));
        }
        items.createItem(item("spared", doomed + "-other"));
        items.deleteAllItemsByPartitionKey(new PartitionKey(doomed), null);
        for (String id : List.of("1", "2", "3")) {
            refused(404, () -> items.readItem(id, new PartitionKey(doomed), ObjectNode.class));
        }
        assertEquals(200, items.readItem("spared", new PartitionKey(doomed + "-other"), ObjectNode.class).getStatusCode());
    }

    // check: missing-parents
    @Test
    void aMissingContainerOrDatabaseIs404() {
        refused(404, () -> database.getContainer("absent").createItem(item("1", "a")));
        refused(404, () -> Server.client().getDatabase("absent").createContainer("c", "/pk"));
    }

    // check: wrong-key
    @Test
    void aWrongKeyIsRefusedWith401() {
        String wrong = java.util.Base64.getEncoder().encodeToString("another key, of the usual length or so..................".getBytes());
        refused(401, () -> {
            try (CosmosClient stranger = Server.withoutKey().key(wrong).buildClient()) {
                stranger.createDatabase(unique("never"));
            }
        });
    }

    // check: diagnostics
    @Test
    void diagnosticsHaveTheRequestChargeAndTheStatus() {
        var created = items.createItem(item(unique("charged"), "a"));
        var context = created.getDiagnostics().getDiagnosticsContext();
        assertEquals(created.getRequestCharge(), context.getTotalRequestCharge(), 0.01);
        assertTrue(context.getTotalRequestCharge() > 0);
        assertEquals(201, context.getStatusCode());
        assertTrue(created.getDiagnostics().toString().contains("\"requestCharge\""));
        assertTrue(created.getActivityId() != null && !created.getActivityId().isEmpty());
    }
}
