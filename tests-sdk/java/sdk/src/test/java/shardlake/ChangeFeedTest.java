package shardlake;

import static com.azure.cosmos.models.CosmosChangeFeedRequestOptions.createForProcessingFromBeginning;
import static com.azure.cosmos.models.CosmosChangeFeedRequestOptions.createForProcessingFromContinuation;
import static com.azure.cosmos.models.CosmosChangeFeedRequestOptions.createForProcessingFromNow;
import static com.azure.cosmos.models.CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;
import static shardlake.Refusals.refused;
import static shardlake.Refusals.until;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosPatchOperations;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The change feed by its pages, in both modes. */
class ChangeFeedTest extends OwnDatabase {
    /** The changes until now, and where to go on. */
    record Drained(List<JsonNode> changes, String continuation) {
        List<String> ids() {
            return changes.stream().map(Items::id).toList();
        }
    }

    static Drained drain(CosmosContainer container, CosmosChangeFeedRequestOptions options) {
        List<JsonNode> changes = new ArrayList<>();
        String continuation = null;
        for (FeedResponse<JsonNode> page : container.queryChangeFeed(options, JsonNode.class).iterableByPage()) {
            changes.addAll(page.getResults());
            continuation = page.getContinuationToken();
        }
        return new Drained(changes, continuation);
    }

    static CosmosChangeFeedRequestOptions beginning() {
        return createForProcessingFromBeginning(FeedRange.forFullRange());
    }

    private CosmosContainerProperties keepingVersions() {
        return byPk().setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofHours(1)));
    }

    // check: change-feed
    @ParameterizedTest
    @ValueSource(ints = {400, FIVE_PARTITIONS})
    void theLatestVersionOfEveryItemComesOnceAndThenTheNewOnes(int throughput) {
        CosmosContainer container = container(byPk(), throughput);
        Set<String> expected = new HashSet<>();
        for (int n = 0; n < 60; n++) {
            container.createItem(item("" + n, "k" + n % 20, n));
            expected.add("" + n);
        }
        container.replaceItem(item("7", "k7", 700), "7", new PartitionKey("k7"), null);
        container.deleteItem("8", new PartitionKey("k8"), null);
        expected.remove("8");
        for (int pageSize : new int[] {1, 7, 100}) {
            List<JsonNode> changes = drain(container, beginning().setMaxItemCount(pageSize)).changes();
            assertEquals(expected, new HashSet<>(changes.stream().map(Items::id).toList()));
            assertEquals(expected.size(), changes.size(), "each item comes once");
            assertTrue(changes.stream().anyMatch(change -> change.get("n").asInt() == 700));
            for (int key = 0; key < 20; key++) {
                String pk = "k" + key;
                List<Long> lsns = changes.stream().filter(change -> change.get("pk").asText().equals(pk)).map(change -> change.get("_lsn").asLong()).toList();
                assertEquals(lsns.stream().sorted().toList(), lsns, "in the order of the key's writes");
            }
        }
        String continuation = drain(container, beginning()).continuation();
        assertEquals(List.of(), drain(container, createForProcessingFromContinuation(continuation)).changes());
        container.upsertItem(item("3", "k3", 300));
        container.createItem(item("new", "k0"));
        assertEquals(Set.of("3", "new"), new HashSet<>(drain(container, createForProcessingFromContinuation(continuation)).ids()));
    }

    // check: change-feed-starts
    @Test
    void nowATimeAKeyAndARangeAreStarts() {
        CosmosContainer container = container(byPk(), FIVE_PARTITIONS);
        Instant early = Instant.now();
        IntStream.range(0, 30).forEach(n -> container.createItem(item("" + n, "k" + n % 6, n)));
        Drained now = drain(container, createForProcessingFromNow(FeedRange.forFullRange()));
        assertEquals(List.of(), now.changes());
        container.createItem(item("late", "k1"));
        assertEquals(List.of("late"), drain(container, createForProcessingFromContinuation(now.continuation())).ids());
        FeedRange full = FeedRange.forFullRange();
        assertEquals(31, drain(container, createForProcessingFromPointInTime(early.minusSeconds(3600), full)).changes().size());
        assertEquals(0, drain(container, createForProcessingFromPointInTime(Instant.now().plusSeconds(3600), full)).changes().size());
        FeedRange ofKey = FeedRange.forLogicalPartition(new PartitionKey("k1"));
        assertEquals(List.of("1", "7", "13", "19", "25", "late"), drain(container, createForProcessingFromBeginning(ofKey).setMaxItemCount(2)).ids());
        List<FeedRange> ranges = container.getFeedRanges();
        assertEquals(5, ranges.size());
        List<String> found = new ArrayList<>();
        ranges.forEach(range -> found.addAll(drain(container, createForProcessingFromBeginning(range)).ids()));
        assertEquals(31, found.size());
        assertEquals(31, new HashSet<>(found).size());
    }

    // check: change-feed-all-versions
    @Test
    void allVersionsAndDeletesComeWithTheEarlierVersions() {
        CosmosContainer container = container(keepingVersions(), 400);
        assertEquals(Duration.ofHours(1), container.read().getProperties().getChangeFeedPolicy().getRetentionDurationForAllVersionsAndDeletesPolicy());
        String start = drain(container, createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes()).continuation();
        PartitionKey k = new PartitionKey("k");
        container.createItem(item("a", "k", 1));
        container.replaceItem(item("a", "k", 2), "a", k, null);
        container.patchItem("a", k, CosmosPatchOperations.create().increment("/n", 1), ObjectNode.class);
        container.deleteItem("a", k, null);
        container.createItem(item("a", "k", 4));
        var options = createForProcessingFromContinuation(start).allVersionsAndDeletes().setMaxItemCount(2);
        List<JsonNode> changes = drain(container, options).changes();
        assertEquals(List.of("create", "replace", "replace", "delete", "create"),
                changes.stream().map(change -> change.at("/metadata/operationType").asText()).toList());
        assertEquals(List.of(1, 2, 3, -1, 4), changes.stream().map(change -> change.at("/current/n").asInt(-1)).toList());
        assertEquals(List.of(-1, -1, -1, 3, -1), changes.stream().map(change -> change.at("/previous/n").asInt(-1)).toList());
        List<Long> lsns = changes.stream().map(change -> change.at("/metadata/lsn").asLong()).toList();
        assertEquals(new ArrayList<>(new TreeSet<>(lsns)), lsns);
        assertEquals(lsns.get(2), changes.get(3).at("/metadata/previousImageLSN").asLong());
    }

    // check: change-feed-policy
    @Test
    void allVersionsNeedAPolicy() {
        CosmosContainer plain = container();
        refused(400, () -> drain(plain, createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes()));
    }

    // check: time-to-live
    @Test
    void anItemEndsWithItsTimeToLiveAndTheFeedReportsIt() {
        CosmosContainer container = container(keepingVersions().setDefaultTimeToLiveInSeconds(-1), 400);
        assertEquals(-1, container.read().getProperties().getDefaultTimeToLiveInSeconds());
        String start = drain(container, createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes()).continuation();
        container.createItem(item("short", "k").put("ttl", 1));
        container.createItem(item("kept", "k"));
        PartitionKey k = new PartitionKey("k");
        until("the item has ended", () -> container.queryItems("SELECT * FROM c WHERE c.id = 'short'", null, ObjectNode.class).stream().findAny().isEmpty());
        refused(404, () -> container.readItem("short", k, ObjectNode.class));
        assertEquals(List.of("kept"), drain(container, beginning()).ids());
        List<JsonNode> changes = new ArrayList<>();
        until("the deletion is reported", () -> {
            changes.clear();
            changes.addAll(drain(container, createForProcessingFromContinuation(start).allVersionsAndDeletes()).changes());
            return changes.size() == 3;
        });
        JsonNode end = changes.stream().filter(change -> change.at("/metadata/operationType").asText().equals("delete")).findFirst().orElseThrow();
        assertTrue(end.at("/metadata/timeToLiveExpired").asBoolean());
        for (int ttl : new int[] {0, -2}) {
            refused(400, () -> container.createItem(item("bad", "k").put("ttl", ttl)));
        }
    }

    // check: change-feed-motion
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3})
    void everyChangeComesOnceWhilePartitionsSplitMoveAndMerge(int step) {
        CosmosContainer container = container(byPk(), 400);
        List<ObjectNode> items = IntStream.range(0, 120).mapToObj(n -> item("" + n, "k" + n % 30, n)).toList();
        items.forEach(container::createItem);
        Motion motion = new Motion(database, container, step);
        List<Integer> found = new ArrayList<>();
        String continuation = null;
        for (int quiet = 0; quiet < 2;) {
            var options = continuation == null ? beginning() : createForProcessingFromContinuation(continuation);
            var page = container.queryChangeFeed(options.setMaxItemCount(13), JsonNode.class).iterableByPage().iterator().next();
            page.getResults().forEach(change -> found.add(change.get("n").asInt()));
            continuation = page.getContinuationToken();
            quiet = page.getResults().isEmpty() ? quiet + 1 : 0;
            motion.next();
        }
        assertEquals(IntStream.range(0, 120).boxed().toList(), found.stream().sorted().toList());
    }

    // check: change-feed-all-versions-motion
    @Test
    void everyVersionComesOnceWhilePartitionsSplitMoveAndMerge() {
        CosmosContainer container = container(keepingVersions(), 400);
        String continuation = drain(container, createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes()).continuation();
        Motion motion = new Motion(database, container, 0);
        List<String> found = new ArrayList<>();
        Set<String> written = new TreeSet<>();
        for (int round = 0; round < 6; round++) {
            for (int n = 0; n < 20; n++) {
                container.upsertItem(item("" + n, "k" + n % 10, round));
                written.add(n + " " + round);
            }
            motion.next();
            Drained drained = drain(container, createForProcessingFromContinuation(continuation).allVersionsAndDeletes().setMaxItemCount(7));
            drained.changes().forEach(change -> found.add(Items.id(change.get("current")) + " " + change.at("/current/n").asInt()));
            continuation = drained.continuation();
        }
        assertEquals(new ArrayList<>(written), found.stream().sorted().toList());
    }
}
