package shardlake;

import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.ThroughputProperties;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;

/** A class of tests with a database of its own, which is deleted at the end. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class OwnDatabase {
    /** Throughput that gives a new container five physical partitions. */
    static final int FIVE_PARTITIONS = 30_000;

    CosmosDatabase database;

    @BeforeAll
    void createDatabase() {
        String id = Items.unique("java");
        Server.client().createDatabase(id);
        database = Server.client().getDatabase(id);
    }

    @AfterAll
    void deleteDatabase() {
        database.delete();
    }

    /** A container with the key {@code /pk} and one physical partition. */
    CosmosContainer container() {
        return container(byPk(), 400);
    }

    CosmosContainer container(CosmosContainerProperties properties, int throughput) {
        database.createContainer(properties, ThroughputProperties.createManualThroughput(throughput));
        return database.getContainer(properties.getId());
    }

    CosmosContainerProperties byPk() {
        return new CosmosContainerProperties(Items.unique("container"), "/pk");
    }

    CosmosContainerProperties byPaths(String... paths) {
        PartitionKeyDefinition definition = new PartitionKeyDefinition();
        definition.setPaths(List.of(paths));
        definition.setKind(PartitionKind.MULTI_HASH);
        definition.setVersion(PartitionKeyDefinitionVersion.V2);
        return new CosmosContainerProperties(Items.unique("container"), definition);
    }

    /** The same container for the asynchronous client. */
    CosmosAsyncContainer async(CosmosContainer container) {
        return Server.asyncClient().getDatabase(database.getId()).getContainer(container.getId());
    }

    /** All rows of a query or a feed. */
    static <T extends JsonNode> List<T> list(Iterable<T> rows) {
        return java.util.stream.StreamSupport.stream(rows.spliterator(), false).toList();
    }
}
