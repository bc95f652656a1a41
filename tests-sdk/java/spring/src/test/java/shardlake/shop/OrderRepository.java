package shardlake.shop;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.List;
import org.springframework.data.repository.query.Param;

/** Orders by derived queries and by a query of their own. */
public interface OrderRepository extends CosmosRepository<Order, String> {
    List<Order> findByCustomerAndState(String customer, String state);

    List<Order> findByTotalGreaterThanOrderByTotalDesc(int total);

    long countByState(String state);

    boolean existsByState(String state);

    void deleteByState(String state);

    @Query("SELECT VALUE SUM(c.total) FROM c WHERE c.customer = @customer")
    List<Long> sumOf(@Param("customer") String customer);
}
