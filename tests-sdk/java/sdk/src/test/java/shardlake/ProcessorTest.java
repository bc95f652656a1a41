package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static shardlake.Items.item;
import static shardlake.Refusals.until;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The change feed processor with each of its handlers. */
class ProcessorTest extends OwnDatabase {
    private static final int ITEMS = 40;

    private ChangeFeedProcessorBuilder processor(CosmosContainer feed) {
        CosmosContainer leases = container(new CosmosContainerProperties(Items.unique("leases"), "/id"), 400);
        // Short intervals, so that the test does not wait for the defaults of several seconds.
        var options = new ChangeFeedProcessorOptions()
                .setFeedPollDelay(Duration.ofMillis(50))
                .setLeaseAcquireInterval(Duration.ofMillis(300))
                .setMaxItemCount(7)
                .setStartFromBeginning(true);
        return new ChangeFeedProcessorBuilder().hostName("host").feedContainer(async(feed)).leaseContainer(async(leases)).options(options);
    }

    private static void write(CosmosContainer feed, int start) {
        IntStream.range(start, start + ITEMS).forEach(n -> feed.createItem(item("i" + n, "k" + n % 8, n)));
    }

    private void split(CosmosContainer feed) {
        feed.replaceThroughput(ThroughputProperties.createManualThroughput(11_000));
        until("two partitions", () -> Server.operate("GET", "_shardlake/v1/dbs/" + database.getId() + "/colls/" + feed.getId() + "/partitions", null).get("partitions").size() == 2);
    }

    private static List<Integer> numbers(int end) {
        return IntStream.range(0, end).boxed().toList();
    }

    // check: processor
    @Test
    void changesReachTheHandlerThroughASplit() {
        CosmosContainer feed = container();
        Queue<Integer> seen = new ConcurrentLinkedQueue<>();
        write(feed, 0);
        ChangeFeedProcessor processor = processor(feed).handleChanges(changes -> changes.forEach(change -> seen.add(change.get("n").asInt()))).buildChangeFeedProcessor();
        readThroughASplit(feed, processor, seen);
    }

    // check: processor-latest-version
    @Test
    void latestVersionsReachTheHandlerThroughASplit() {
        CosmosContainer feed = container();
        Queue<Integer> seen = new ConcurrentLinkedQueue<>();
        write(feed, 0);
        ChangeFeedProcessor processor = processor(feed)
                .handleLatestVersionChanges(changes -> changes.forEach(change -> seen.add(change.getCurrent().get("n").asInt())))
                .buildChangeFeedProcessor();
        readThroughASplit(feed, processor, seen);
    }

    private void readThroughASplit(CosmosContainer feed, ChangeFeedProcessor processor, Queue<Integer> seen) {
        processor.start().block();
        try {
            until("the first changes have come", () -> new TreeSet<>(seen).size() == ITEMS);
            split(feed);
            write(feed, ITEMS);
            until("all changes have come", () -> new TreeSet<>(seen).size() == 2 * ITEMS);
        } finally {
            processor.stop().block();
        }
        assertEquals(numbers(2 * ITEMS), List.copyOf(new TreeSet<>(seen)));
    }

    // check: processor-all-versions
    @Test
    void allVersionsAndDeletesReachTheHandler() {
        CosmosContainer feed = container(byPk().setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofHours(1))), 400);
        Queue<String> seen = new ConcurrentLinkedQueue<>();
        var options = new ChangeFeedProcessorOptions().setFeedPollDelay(Duration.ofMillis(50)).setLeaseAcquireInterval(Duration.ofMillis(300));
        ChangeFeedProcessor processor = processor(feed)
                .options(options)
                .handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> changes) -> changes.forEach(change -> seen.add(name(change))))
                .buildChangeFeedProcessor();
        processor.start().block();
        try {
            // The processor begins at its own start, so that it is ready when it has seen a first change.
            until("the processor has begun", () -> {
                feed.upsertItem(item("first", "k"));
                return !seen.isEmpty();
            });
            feed.createItem(item("a", "k", 1));
            feed.upsertItem(item("a", "k", 2));
            feed.deleteItem("a", new PartitionKey("k"), null);
            until("the deletion has come", () -> seen.contains("DELETE -1"));
        } finally {
            processor.stop().block();
        }
        List<String> own = seen.stream().filter(change -> !change.endsWith(" 0")).distinct().toList();
        assertEquals(List.of("CREATE 1", "REPLACE 2", "DELETE -1"), own);
    }

    private static String name(ChangeFeedProcessorItem change) {
        int n = change.getCurrent() == null || change.getCurrent().isEmpty() ? -1 : change.getCurrent().path("n").asInt(0);
        return change.getChangeFeedMetaData().getOperationType() + " " + n;
    }
}
