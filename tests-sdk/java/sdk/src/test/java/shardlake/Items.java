package shardlake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.UUID;

/** Items as JSON trees. */
final class Items {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> SYSTEM = List.of("_rid", "_self", "_etag", "_attachments", "_ts", "_lsn");

    private Items() {}

    /** A name that no other test uses. */
    static String unique(String name) {
        return name + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    static ObjectNode item(String id, String pk) {
        return JSON.createObjectNode().put("id", id).put("pk", pk);
    }

    static ObjectNode item(String id, String pk, int n) {
        return item(id, pk).put("n", n);
    }

    static ObjectNode parse(String json) {
        try {
            return (ObjectNode) JSON.readTree(json.replace('\'', '"'));
        } catch (com.fasterxml.jackson.core.JsonProcessingException failure) {
            throw new IllegalArgumentException(json, failure);
        }
    }

    /** An item as its writer sent it. */
    static ObjectNode own(JsonNode item) {
        ObjectNode copy = item.deepCopy();
        copy.remove(SYSTEM);
        return copy;
    }

    static String id(JsonNode item) {
        return item.get("id").asText();
    }
}
