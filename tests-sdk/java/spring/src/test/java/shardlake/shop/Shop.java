package shardlake.shop;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.UUID;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** An application of Spring Boot that keeps orders and visits. */
@SpringBootApplication
@EnableCosmosRepositories
public class Shop extends AbstractCosmosConfiguration {
    private static final String DATABASE = "spring-" + UUID.randomUUID();

    @Bean
    public CosmosClientBuilder client() {
        CosmosClientBuilder builder = new CosmosClientBuilder()
                .endpoint(System.getenv("SHARDLAKE_HTTPS"))
                .key(System.getenv("SHARDLAKE_KEY"));
        // Without a mode it is the SDK's default, Direct.
        return System.getenv("SHARDLAKE_MODE").equals("gateway") ? builder.gatewayMode() : builder;
    }

    @Override
    protected String getDatabaseName() {
        return DATABASE;
    }
}
