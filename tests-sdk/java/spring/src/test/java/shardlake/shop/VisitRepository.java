package shardlake.shop;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import java.util.List;

/** Visits by parts of their key. */
public interface VisitRepository extends CosmosRepository<Visit, String> {
    List<Visit> findByTenant(String tenant);

    List<Visit> findByTenantAndUser(String tenant, String user);
}
