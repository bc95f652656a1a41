package shardlake;

import static com.azure.cosmos.models.CosmosBatch.createCosmosBatch;
import static com.azure.cosmos.models.CosmosBulkOperations.getCreateItemOperation;
import static com.azure.cosmos.models.CosmosBulkOperations.getDeleteItemOperation;
import static com.azure.cosmos.models.CosmosBulkOperations.getPatchItemOperation;
import static com.azure.cosmos.models.CosmosBulkOperations.getReadItemOperation;
import static com.azure.cosmos.models.CosmosBulkOperations.getReplaceItemOperation;
import static com.azure.cosmos.models.CosmosBulkOperations.getUpsertItemOperation;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Items.unique;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosBatchItemRequestOptions;
import com.azure.cosmos.models.CosmosBatchOperationResult;
import com.azure.cosmos.models.CosmosBatchResponse;
import com.azure.cosmos.models.CosmosBulkOperationResponse;
import com.azure.cosmos.models.CosmosItemOperation;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import reactor.core.publisher.Flux;

/** Transactional batches, and bulk operations over several physical partitions. */
class BatchesTest extends OwnDatabase {
    private CosmosContainer items;

    @BeforeAll
    void createItems() {
        items = container(byPk(), FIVE_PARTITIONS);
    }

    private static List<Integer> statuses(CosmosBatchResponse response) {
        return response.getResults().stream().map(CosmosBatchOperationResult::getStatusCode).toList();
    }

    private int count(String id, String pk) {
        return items.readItem(id, new PartitionKey(pk), ObjectNode.class).getItem().get("n").asInt();
    }

    // check: batch
    @Test
    void aBatchOfEveryKindOfOperationSucceedsAsAWhole() {
        String pk = unique("pk");
        items.createItem(item("old", pk, 1));
        items.createItem(item("doomed", pk));
        CosmosBatch batch = createCosmosBatch(new PartitionKey(pk));
        batch.createItemOperation(item("new", pk).put("text", "é"));
        batch.upsertItemOperation(item("upserted", pk));
        batch.readItemOperation("old");
        batch.replaceItemOperation("old", item("old", pk, 2));
        batch.patchItemOperation("old", CosmosPatchOperations.create().increment("/n", 40));
        batch.deleteItemOperation("doomed");
        CosmosBatchResponse response = items.executeCosmosBatch(batch);
        assertEquals(200, response.getStatusCode());
        assertEquals(List.of(201, 201, 200, 200, 200, 204), statuses(response));
        assertEquals(1, response.getResults().get(2).getItem(ObjectNode.class).get("n").asInt(), "a read sees the operations before it");
        assertTrue(response.getResults().stream().allMatch(result -> result.getRequestCharge() > 0));
        assertTrue(response.getRequestCharge() > 0);
        assertEquals(42, count("old", pk));
        refused(404, () -> count("doomed", pk));
    }

    // check: batch-atomic
    @Test
    void oneFailureUndoesTheBatchAndTheOthersAnswer424() {
        String pk = unique("pk");
        items.createItem(item("taken", pk, 1));
        CosmosBatch batch = createCosmosBatch(new PartitionKey(pk));
        batch.createItemOperation(item("first", pk));
        batch.patchItemOperation("taken", CosmosPatchOperations.create().increment("/n", 1));
        batch.createItemOperation(item("taken", pk));
        batch.createItemOperation(item("last", pk));
        CosmosBatchResponse response = items.executeCosmosBatch(batch);
        assertEquals(409, response.getStatusCode());
        assertEquals(List.of(424, 424, 409, 424), statuses(response));
        refused(404, () -> count("first", pk));
        assertEquals(1, count("taken", pk));
    }

    // check: batch-etags
    @Test
    void etagsHoldInsideABatch() {
        String pk = unique("pk");
        String stale = items.createItem(item("x", pk, 1)).getETag();
        items.replaceItem(item("x", pk, 2), "x", new PartitionKey(pk), null);
        CosmosBatch batch = createCosmosBatch(new PartitionKey(pk));
        batch.createItemOperation(item("y", pk));
        batch.replaceItemOperation("x", item("x", pk, 3), new CosmosBatchItemRequestOptions().setIfMatchETag(stale));
        assertEquals(List.of(424, 412), statuses(items.executeCosmosBatch(batch)));
        assertEquals(2, count("x", pk));
    }

    // check: batch-hierarchical
    @Test
    void aBatchHasAHierarchicalKey() {
        CosmosContainer tenants = container(byPaths("/t", "/u"), 400);
        CosmosBatch batch = createCosmosBatch(new PartitionKeyBuilder().add("a").add("b").build());
        for (String id : List.of("1", "2")) {
            batch.createItemOperation(Items.JSON.createObjectNode().put("id", id).put("t", "a").put("u", "b"));
        }
        assertEquals(List.of(201, 201), statuses(tenants.executeCosmosBatch(batch)));
    }

    // check: batch-limits
    @Test
    void aBatchHasAtMostOneHundredOperations() {
        String pk = unique("pk");
        CosmosBatch full = createCosmosBatch(new PartitionKey(pk));
        CosmosBatch tooLarge = createCosmosBatch(new PartitionKey(pk));
        for (int n = 0; n < 100; n++) {
            full.createItemOperation(item("i" + n, pk));
            tooLarge.upsertItemOperation(item("i" + n, pk));
        }
        tooLarge.createItemOperation(item("i100", pk));
        assertEquals(200, items.executeCosmosBatch(full).getStatusCode());
        refused(400, () -> items.executeCosmosBatch(tooLarge));
        refused(404, () -> items.readItem("i100", new PartitionKey(pk), ObjectNode.class));
    }

    /** The status of each operation by the id of its item. */
    private Map<String, Integer> bulk(List<CosmosItemOperation> operations) {
        Map<String, Integer> statuses = new TreeMap<>();
        for (CosmosBulkOperationResponse<String> one : items.<String>executeBulkOperations(operations)) {
            assertNull(one.getException(), () -> one.getException().toString());
            statuses.put(one.getBatchContext(), one.getResponse().getStatusCode());
        }
        return statuses;
    }

    // check: bulk
    @Test
    void bulkSpreadsOperationsOverPhysicalPartitions() {
        List<CosmosItemOperation> creates = new ArrayList<>();
        for (int n = 0; n < 250; n++) {
            String pk = "bulk-" + n % 37;
            creates.add(getCreateItemOperation(item("b" + n, pk, n), new PartitionKey(pk), "b" + n));
        }
        Map<String, Integer> created = bulk(creates);
        assertEquals(250, created.size());
        assertTrue(created.values().stream().allMatch(status -> status == 201), created::toString);

        List<CosmosItemOperation> mixed = List.of(
                getReadItemOperation("b3", new PartitionKey("bulk-3"), "1 read"),
                getCreateItemOperation(item("b4", "bulk-4"), new PartitionKey("bulk-4"), "2 create"),
                getPatchItemOperation("b5", new PartitionKey("bulk-5"), CosmosPatchOperations.create().increment("/n", 1000), "3 patch"),
                getDeleteItemOperation("b6", new PartitionKey("bulk-6"), "4 delete"),
                getReplaceItemOperation("b7", item("b7", "bulk-7", -7), new PartitionKey("bulk-7"), "5 replace"),
                getUpsertItemOperation(item("b8", "bulk-8", -8), new PartitionKey("bulk-8"), "6 upsert"),
                getReadItemOperation("absent", new PartitionKey("bulk-9"), "7 absent"));
        assertEquals(List.of(200, 409, 200, 204, 200, 200, 404), List.copyOf(bulk(mixed).values()));
        assertEquals(1005, count("b5", "bulk-5"));
    }

    // check: bulk-async
    @Test
    void theAsynchronousClientDoesTheSame() {
        String run = unique("run");
        Flux<CosmosItemOperation> creates = Flux.range(0, 120)
                .map(n -> getCreateItemOperation(item(run + n, run + n % 11, n), new PartitionKey(run + n % 11)));
        Long created = async(items).<Object>executeBulkOperations(creates)
                .filter(one -> one.getException() == null && one.getResponse().getStatusCode() == 201)
                .count()
                .block();
        assertEquals(120, created);
    }
}
