package shardlake;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;

import com.azure.cosmos.CosmosException;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.function.Executable;

/** Expectations about errors, and waiting for an event. */
final class Refusals {
    private Refusals() {}

    /** Expects an error with this status, checks the members that every error has, and returns it. */
    static CosmosException refused(int status, Executable work) {
        CosmosException error = cosmosErrorIn(assertThrows(RuntimeException.class, work));
        assertEquals(status, error.getStatusCode(), error.getMessage());
        assertFalse(error.getActivityId() == null || error.getActivityId().isEmpty(), "an error names its activity");
        assertFalse(error.getShortMessage() == null || error.getShortMessage().isEmpty(), "an error has a message");
        return error;
    }

    /** The SDK's own error: the cause where a client cannot be made, one of several where partitions are asked in parallel. */
    private static CosmosException cosmosErrorIn(Throwable thrown) {
        return errorsIn(thrown).findFirst().orElseThrow(() -> new AssertionError("an error of another kind", thrown));
    }

    private static Stream<CosmosException> errorsIn(Throwable thrown) {
        if (thrown == null) {
            return Stream.empty();
        }
        if (thrown instanceof CosmosException error) {
            return Stream.of(error);
        }
        return Stream.concat(Stream.of(thrown.getSuppressed()).flatMap(Refusals::errorsIn), errorsIn(thrown.getCause()));
    }

    /** Asks until the answer is true. The end turns a hang into a failure; it is no verdict on speed. */
    static void until(String event, BooleanSupplier ask) {
        long end = System.nanoTime() + java.time.Duration.ofMinutes(8).toNanos();
        while (!ask.getAsBoolean()) {
            if (System.nanoTime() > end) {
                fail("not reached: " + event);
            }
            java.util.concurrent.locks.LockSupport.parkNanos(20_000_000);
        }
    }
}
