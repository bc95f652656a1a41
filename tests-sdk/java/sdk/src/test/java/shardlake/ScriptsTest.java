package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Refusals.refused;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosScripts;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosStoredProcedureProperties;
import com.azure.cosmos.models.CosmosStoredProcedureRequestOptions;
import com.azure.cosmos.models.CosmosTriggerProperties;
import com.azure.cosmos.models.CosmosUserDefinedFunctionProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.TriggerOperation;
import com.azure.cosmos.models.TriggerType;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Stored procedures, triggers and functions. */
class ScriptsTest extends OwnDatabase {
    private static final PartitionKey K = new PartitionKey("k");

    private static final String WRITE = """
            function (id, fails) {
              const context = getContext(), collection = context.getCollection();
              const accepted = collection.createDocument(collection.getSelfLink(), { id, pk: 'k', n: 1 }, (error, created) => {
                if (error) throw error;
                created.n = 2;
                collection.replaceDocument(created._self, created, (failed, replaced) => {
                  if (failed) throw failed;
                  if (fails) throw new Error('second thoughts');
                  console.log('wrote ' + replaced.id);
                  context.getResponse().setBody({ id: replaced.id, n: replaced.n });
                });
              });
              if (!accepted) throw new Error('not accepted');
            }""";

    private static CosmosStoredProcedureRequestOptions inK() {
        return new CosmosStoredProcedureRequestOptions().setPartitionKey(K);
    }

    // check: scripts
    @Test
    void scriptsAreCreatedReadListedReplacedAndDeleted() {
        CosmosScripts scripts = container().getScripts();
        var created = scripts.createStoredProcedure(new CosmosStoredProcedureProperties("p", "function () { }"));
        assertEquals(201, created.getStatusCode());
        refused(409, () -> scripts.createStoredProcedure(new CosmosStoredProcedureProperties("p", "function () { }")));
        var procedure = scripts.getStoredProcedure("p");
        procedure.replace(procedure.read().getProperties().setBody("function () { return 2; }"));
        assertEquals("function () { return 2; }", procedure.read().getProperties().getBody());
        assertEquals(1, scripts.readAllStoredProcedures().stream().count());
        assertEquals(1, scripts.queryStoredProcedures("SELECT * FROM root r WHERE r.id = 'p'", null).stream().count());
        assertEquals(204, procedure.delete().getStatusCode());
        refused(404, procedure::read);

        var trigger = new CosmosTriggerProperties("t", "function () { }").setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.ALL);
        assertEquals(201, scripts.createTrigger(trigger).getStatusCode());
        assertEquals(TriggerType.PRE, scripts.getTrigger("t").read().getProperties().getTriggerType());
        assertEquals(1, scripts.readAllTriggers().stream().count());
        assertEquals(204, scripts.getTrigger("t").delete().getStatusCode());

        var function = new CosmosUserDefinedFunctionProperties("f", "function (x) { return x * 2; }");
        assertEquals(201, scripts.createUserDefinedFunction(function).getStatusCode());
        assertEquals(1, scripts.readAllUserDefinedFunctions().stream().count());
        assertEquals(204, scripts.getUserDefinedFunction("f").delete().getStatusCode());
        refused(400, () -> scripts.createUserDefinedFunction(new CosmosUserDefinedFunctionProperties("g", "function () { return 1 +; }")));
    }

    // check: stored-procedures
    @Test
    void aProcedureIsOneTransaction() {
        CosmosContainer container = container();
        container.getScripts().createStoredProcedure(new CosmosStoredProcedureProperties("write", WRITE));
        var procedure = container.getScripts().getStoredProcedure("write");
        var done = procedure.execute(List.of("one", false), inK().setScriptLoggingEnabled(true));
        assertEquals(200, done.getStatusCode());
        assertEquals("{\"id\":\"one\",\"n\":2}", done.getResponseAsString());
        assertTrue(done.getRequestCharge() > 0);
        assertTrue(done.getScriptLog().contains("wrote one"), done.getScriptLog());
        assertEquals(2, container.readItem("one", K, ObjectNode.class).getItem().get("n").asInt());

        var error = refused(400, () -> procedure.execute(List.of("two", true), inK()));
        assertTrue(error.getMessage().contains("second thoughts"), error.getMessage());
        refused(404, () -> container.readItem("two", K, ObjectNode.class));
        var elsewhere = new CosmosStoredProcedureRequestOptions().setPartitionKey(new PartitionKey("another"));
        refused(400, () -> procedure.execute(List.of("three", false), elsewhere));
    }

    // check: triggers
    @Test
    void aTriggerBelongsToTheWriteThatNamesIt() {
        CosmosContainer container = container();
        String pre = "function () { const request = getContext().getRequest(); const item = request.getBody(); item.stamped = request.getOperationType(); request.setBody(item); }";
        String post = """
                function () {
                  const context = getContext(), created = context.getResponse().getBody(), collection = context.getCollection();
                  if (created.poison) throw new Error('refused afterwards');
                  collection.createDocument(collection.getSelfLink(), { id: created.id + ' audit', pk: created.pk }, (error) => { if (error) throw error; });
                }""";
        container.getScripts().createTrigger(new CosmosTriggerProperties("stamp", pre).setTriggerType(TriggerType.PRE).setTriggerOperation(TriggerOperation.ALL));
        container.getScripts().createTrigger(new CosmosTriggerProperties("audit", post).setTriggerType(TriggerType.POST).setTriggerOperation(TriggerOperation.CREATE));
        var both = new CosmosItemRequestOptions().setPreTriggerInclude(List.of("stamp")).setPostTriggerInclude(List.of("audit"));
        assertEquals("Create", container.createItem(item("a", "k"), K, both).getItem().get("stamped").asText());
        assertEquals(200, container.readItem("a audit", K, ObjectNode.class).getStatusCode());
        refused(400, () -> container.createItem(item("c", "k").put("poison", true), K, both));
        refused(404, () -> container.readItem("c", K, ObjectNode.class));
        refused(400, () -> container.createItem(item("d", "k"), K, new CosmosItemRequestOptions().setPreTriggerInclude(List.of("absent"))));
    }

    // check: functions
    @Test
    void aFunctionIsCalledInQueries() {
        CosmosContainer container = container();
        container.getScripts().createUserDefinedFunction(new CosmosUserDefinedFunctionProperties("twice", "function (x) { return x * 2; }"));
        for (int n = 1; n <= 3; n++) {
            container.createItem(item("" + n, "k", n));
        }
        var options = new CosmosQueryRequestOptions().setPartitionKey(K);
        var query = "SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) > 2 ORDER BY c.n";
        // A function returns a JavaScript number, which the SDK may read as either type.
        var rows = container.queryItems(query, options, Double.class).stream().toList();
        assertEquals(List.of(4.0, 6.0), rows);
        refused(400, () -> container.queryItems("SELECT VALUE udf.absent(c) FROM c", options, ObjectNode.class).stream().toList());
    }
}
