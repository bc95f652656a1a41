package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static shardlake.Items.own;
import static shardlake.Items.parse;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosPatchItemRequestOptions;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Patches of items. */
class PatchTest extends OwnDatabase {
    private static final PartitionKey A = new PartitionKey("a");
    private CosmosContainer items;

    @BeforeAll
    void createItems() {
        items = container();
    }

    private static CosmosPatchOperations patch() {
        return CosmosPatchOperations.create();
    }

    // check: patch
    @Test
    void allSixOperationsApplyInOrder() {
        items.createItem(parse("{'id': 'p', 'pk': 'a', 'n': 1, 'list': [1, 2, 3], 'old': 'x', 'gone': true, 'moved': 'm'}"));
        var operations = patch()
                .add("/added", Map.of("a", 1))
                .add("/list/1", "between")
                .set("/old", "y")
                .replace("/list/0", "first")
                .remove("/gone")
                .increment("/n", 4)
                .move("/moved", "/arrived");
        var patched = items.patchItem("p", A, operations, ObjectNode.class);
        assertEquals(200, patched.getStatusCode());
        assertEquals(
                parse("{'id': 'p', 'pk': 'a', 'n': 5, 'list': ['first', 'between', 2, 3], 'old': 'y', 'added': {'a': 1}, 'arrived': 'm'}"),
                own(patched.getItem()));
    }

    // check: patch-atomic
    @Test
    void aRefusedPatchChangesNothing() {
        items.createItem(parse("{'id': 'q', 'pk': 'a', 'n': 1}"));
        refused(400, () -> items.patchItem("q", A, patch().increment("/n", 1).replace("/absent", 1), ObjectNode.class));
        refused(400, () -> items.patchItem("q", A, patch().set("/pk", "b"), ObjectNode.class));
        refused(400, () -> items.patchItem("q", A, patch().set("/id", "b"), ObjectNode.class));
        CosmosPatchOperations eleven = patch();
        for (int n = 0; n < 11; n++) {
            eleven.increment("/n", 1);
        }
        refused(400, () -> items.patchItem("q", A, eleven, ObjectNode.class));
        refused(404, () -> items.patchItem("absent", A, patch().set("/x", 1), ObjectNode.class));
        assertEquals(1, items.readItem("q", A, ObjectNode.class).getItem().get("n").asInt());
    }

    // check: patch-conditions
    @Test
    void aConditionHoldsOrTheAnswerIs412() {
        items.createItem(parse("{'id': 'c', 'pk': 'a', 'n': 1}"));
        var ifOne = new CosmosPatchItemRequestOptions().setFilterPredicate("from c where c.n = 1");
        assertEquals(2, items.patchItem("c", A, patch().increment("/n", 1), ifOne, ObjectNode.class).getItem().get("n").asInt());
        refused(412, () -> items.patchItem("c", A, patch().increment("/n", 1), ifOne, ObjectNode.class));
    }
}
