package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static shardlake.Items.item;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Eight writers and readers while partitions split, move and merge and the server stops and starts.
 *
 * <p>Each test has {@code SHARDLAKE_STORM_RESTARTS} restarts, two where it is not set.
 */
class StormTest {
    private static final int TASKS = 8;
    private static final int RESTARTS = Integer.parseInt(System.getenv().getOrDefault("SHARDLAKE_STORM_RESTARTS", "2"));
    /** Items that are written between two restarts. */
    private static final int ITEMS_BETWEEN = 200;

    @TempDir
    private Path directory;

    /** The results of all tasks. */
    private static final class Book {
        final Queue<String> acknowledged = new ConcurrentLinkedQueue<>();
        final Queue<String> failedWrites = new ConcurrentLinkedQueue<>();
        final Queue<String> failedReads = new ConcurrentLinkedQueue<>();
        final Queue<String> wrong = new ConcurrentLinkedQueue<>();
        final AtomicBoolean isOver = new AtomicBoolean();
    }

    /** Writes items, and reads the one before each. */
    private static void task(CosmosContainer container, Book book, int task) {
        String last = null;
        for (int n = 0; !book.isOver.get(); n++) {
            String id = task + "-" + n;
            try {
                container.createItem(item(id, id, n));
                book.acknowledged.add(id);
                last = id;
            } catch (CosmosException failure) {
                book.failedWrites.add(failure.getStatusCode() + "/" + failure.getSubStatusCode());
            } catch (RuntimeException failure) {
                book.failedWrites.add(failure.toString());
            }
            if (last == null) {
                continue;
            }
            try {
                ObjectNode read = container.readItem(last, new PartitionKey(last), ObjectNode.class).getItem();
                if (!Items.id(read).equals(last)) {
                    book.wrong.add(last + " was read as " + read);
                }
            } catch (CosmosException failure) {
                (failure.getStatusCode() == 404 ? book.wrong : book.failedReads).add(last + ": " + failure.getStatusCode() + "/" + failure.getSubStatusCode());
            }
        }
    }

    private Book storm(boolean isKilled) throws Exception {
        Book book = new Book();
        try (Node node = new Node(directory);
                CosmosClient client = node.client()) {
            client.createDatabase("storm");
            client.getDatabase("storm").createContainer("items", "/pk", ThroughputProperties.createManualThroughput(20_000));
            CosmosContainer container = client.getDatabase("storm").getContainer("items");
            List<Thread> tasks = new ArrayList<>();
            for (int task = 0; task < TASKS; task++) {
                int number = task;
                tasks.add(new Thread(() -> task(container, book, number)));
            }
            tasks.forEach(Thread::start);
            Motion motion = new Motion(node.operator(), client.getDatabase("storm"), container, 0);
            for (int restart = 0; restart < RESTARTS; restart++) {
                int wanted = book.acknowledged.size() + ITEMS_BETWEEN;
                motion.next();
                Refusals.until("more items are written", () -> book.acknowledged.size() >= wanted || !book.wrong.isEmpty());
                node.end(isKilled);
                node.start();
            }
            int wanted = book.acknowledged.size() + ITEMS_BETWEEN;
            Refusals.until("items are written by the last server", () -> book.acknowledged.size() >= wanted || !book.wrong.isEmpty());
            book.isOver.set(true);
            for (Thread task : tasks) {
                task.join();
            }
            assertEquals(List.of(), List.copyOf(book.wrong));
            List<String> stored = container.queryItems("SELECT VALUE c.id FROM c", new CosmosQueryRequestOptions(), String.class).stream().toList();
            Set<String> lost = new HashSet<>(book.acknowledged);
            stored.forEach(lost::remove);
            assertEquals(Set.of(), lost, "acknowledged writes are there");
            assertEquals(stored.size(), new HashSet<>(stored).size(), "each item once");
            assertTrue(stored.size() - book.acknowledged.size() <= book.failedWrites.size(), "every other item is a write that failed");
        }
        return book;
    }

    // check: storm-stops
    @Test
    void stopsShowInNoException() throws Exception {
        Book book = storm(false);
        assertEquals(List.of(), List.copyOf(book.failedReads));
        assertEquals(List.of(), List.copyOf(book.failedWrites));
    }

    // check: storm-kills
    @Test
    void killsFailWritesInFlightOnly() throws Exception {
        Book book = storm(true);
        assertEquals(List.of(), List.copyOf(book.failedReads));
        Set<String> other = new HashSet<>(book.failedWrites);
        other.removeIf(status -> status.startsWith("408/") || status.startsWith("503/"));
        assertEquals(Set.of(), other);
    }
}
