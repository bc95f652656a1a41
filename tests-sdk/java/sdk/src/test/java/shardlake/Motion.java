package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosBulkOperations;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;

/**
 * Splits, merges and moves of a container's partitions, as an operator orders them.
 *
 * <p>Each step ends before {@link #next} returns. The steps repeat. There are never more than {@code PARTITIONS_MAX}
 * partitions: beyond that a merge, or a move, takes the place of a split.
 */
final class Motion {
    private static final int PARTITIONS_MAX = 6;
    private final String server;
    private final String path;
    private final List<String> steps;
    private int step;

    /** Splits, moves and merges. The first step is {@code start}, so that tests meet the kinds of steps at different pages. */
    Motion(CosmosDatabase database, CosmosContainer container, int start) {
        this(Server.HTTP, database, container, start, List.of("split", "move", "split", "merge"));
    }

    Motion(String server, CosmosDatabase database, CosmosContainer container, int start) {
        this(server, database, container, start, List.of("split", "move", "split", "merge"));
    }

    private Motion(String server, CosmosDatabase database, CosmosContainer container, int start, List<String> steps) {
        this.server = server;
        path = "_shardlake/v1/dbs/" + database.getId() + "/colls/" + container.getId() + "/";
        step = start;
        this.steps = steps;
    }

    static Motion withoutMerges(CosmosDatabase database, CosmosContainer container, int start) {
        return new Motion(Server.HTTP, database, container, start, List.of("split", "move"));
    }

    /** Items written in bulk. */
    static void writeAll(CosmosContainer container, List<ObjectNode> items) {
        var operations = items.stream()
                .map(item -> CosmosBulkOperations.getCreateItemOperation(item, new PartitionKey(item.get("pk").asText())))
                .toList();
        container.executeBulkOperations(operations).forEach(one -> assertEquals(201, one.getResponse().getStatusCode()));
    }

    /** The kind of the step that was made. */
    String next() {
        List<JsonNode> partitions = partitions();
        String kind = steps.get(step % steps.size());
        JsonNode chosen = partitions.get(step % partitions.size());
        step++;
        boolean isFull = partitions.size() >= PARTITIONS_MAX;
        if (steps.contains("merge") && (kind.equals("merge") && partitions.size() > 1 || isFull)) {
            int left = step % (partitions.size() - 1);
            ObjectNode body = Items.JSON.createObjectNode();
            ArrayNode ids = body.putArray("ids");
            ids.add(partitions.get(left).get("id").asText()).add(partitions.get(left + 1).get("id").asText());
            return relocate("merge", "partitions/merge", body);
        }
        String place = "partitions/" + chosen.get("id").asText() + "/";
        if (kind.equals("move") || isFull) {
            return relocate("move", place + "move", Items.JSON.createObjectNode().put("shard", 1 - chosen.get("shard").asInt()));
        }
        return relocate("split", place + "split", Items.JSON.createObjectNode().put("at", "middle"));
    }

    /** In the order of their ranges. */
    private List<JsonNode> partitions() {
        List<JsonNode> partitions = new ArrayList<>();
        Server.operate(server, "GET", path + "partitions", null).get("partitions").forEach(partitions::add);
        partitions.sort(java.util.Comparator.comparing(partition -> partition.get("minInclusive").asText()));
        return partitions;
    }

    private String relocate(String kind, String rest, ObjectNode body) {
        JsonNode begun = Server.operate(server, "POST", path + rest, body);
        Refusals.until(kind + " is done", () -> {
            JsonNode report = Server.operate(server, "GET", path + "partitions", null);
            return !report.hasNonNull("relocation") && report.at("/lastRelocation/targets").equals(begun.get("targets"));
        });
        JsonNode last = Server.operate(server, "GET", path + "partitions", null).get("lastRelocation");
        assertEquals("done", last.get("outcome").asText(), last.toString());
        return kind;
    }
}
